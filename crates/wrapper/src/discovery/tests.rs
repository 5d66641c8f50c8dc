use super::*;

fn asked(path: &str, accept: &str) -> Option<Question> {
    Question::new(&Method::GET, &path.parse().unwrap(), accept)
}

fn json(text: &str) -> Discovered {
    answer(JSON, text)
}

fn answer(content_type: &str, text: &str) -> Discovered {
    Discovered {
        head: Head {
            content_type: content_type.to_owned(),
            etag: None,
        },
        body: Compressed::new(text.as_bytes()),
    }
}

fn found(answers: &Answers, path: &str, accept: &str) -> Option<String> {
    let answer = answers.find(&asked(path, accept)?)?;
    Some(String::from_utf8(answer.body.text().unwrap()).unwrap())
}

#[test]
fn only_discovery_and_the_version_are_questions() {
    for path in [
        "/version",
        "/version/",
        "/version?timeout=32s",
        "/api",
        "/api/v1",
        "/api/v2beta1",
        "/apis",
        "/apis/apps",
        "/apis/discovery.k8s.io/v1",
        "/apis/metrics.k8s.io/v1beta1",
    ] {
        assert!(asked(path, JSON).is_some(), "{path}");
    }
    for path in [
        "/",
        "/versions",
        "/version/x",
        "/version?watch=true",
        "/version?timeout=1s&pretty=true",
        "/api/",
        "/api/v",
        "/api/v1beta",
        "/api/1",
        "/api/nodes",
        "/api/v1/nodes",
        "/api/v1/namespaces/kube-system/secrets/x",
        "/api//v1",
        "/api/v1/../v1",
        "/apis/apps/v1/deployments",
        "/apis/apps/deployments",
        "/apis/Apps/v1",
        "/apis/a%70ps/v1",
        "/apis//v1",
        "/openapi/v2",
        "/openapi/v3/api/v1",
        "/healthz/etcd",
        "/metrics/slis",
        "/logs",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
    ] {
        let is_asked = asked(path, JSON).filter(|asked| asked.path() != "/api");
        assert!(is_asked.is_none(), "{path}");
    }
    for method in [Method::POST, Method::HEAD, Method::DELETE, Method::OPTIONS] {
        assert_eq!(
            Question::new(&method, &"/version".parse().unwrap(), JSON),
            None
        );
    }
    assert!(asked("/version", &"x".repeat(MAX_ACCEPT + 1)).is_none());
}

#[test]
fn what_the_wrapper_asks_by_itself_is_discovery() {
    let paths: BTreeSet<&str> = FIXED.iter().chain(&*HEADS).map(Question::path).collect();
    let expected = [
        "/version",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/discovery.k8s.io/v1",
        "/apis/events.k8s.io/v1",
        "/apis/networking.k8s.io/v1",
    ];
    assert_eq!(paths, expected.into());
    assert!(FIXED.iter().chain(&*HEADS).all(Question::is_discovery));
}

#[test]
fn another_accept_gets_plain_json_if_it_takes_it() {
    let mut answers = Answers::default();
    answers.remember(
        asked("/apis", AGGREGATED).unwrap(),
        answer(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "aggregated",
        ),
    );
    let spaced = AGGREGATED.replace(';', "; ").replace(',', " , ");
    assert_eq!(found(&answers, "/apis", &spaced).unwrap(), "aggregated");
    assert_eq!(found(&answers, "/apis", "*/*"), None, "no plain one yet");

    answers.remember(asked("/apis", JSON).unwrap(), json("plain"));
    let protobuf = "application/vnd.kubernetes.protobuf";
    for accept in [
        "",
        "*/*",
        "application/*;q=0.5",
        "application/json, */*",
        "application/json;charset=utf-8",
        &format!("{protobuf}, application/json"),
    ] {
        assert_eq!(
            found(&answers, "/apis", accept).unwrap(),
            "plain",
            "{accept}"
        );
    }
    for accept in [
        protobuf,
        "text/html",
        "application/json;q=0",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    ] {
        assert_eq!(found(&answers, "/apis", accept), None, "{accept}");
    }
    assert_eq!(found(&answers, "/api", JSON), None);
    assert_eq!(found(&answers, "/apis/apps", JSON), None);
}

#[test]
fn number_and_bytes_are_bounded_and_the_wrappers_own_questions_stay() {
    let mut answers = Answers::default();
    let own: Vec<&Question> = FIXED.iter().chain(&*HEADS).collect();
    for question in &own {
        assert_eq!(
            answers.remember((*question).clone(), json("own")),
            Novelty::First
        );
    }
    for n in 0..500 {
        let question = asked(&format!("/apis/group-{n}.example/v1"), JSON).unwrap();
        assert_eq!(answers.remember(question, json("x")), Novelty::Changed);
    }
    assert_eq!(answers.iter().count(), MAX_ANSWERS);
    assert!(found(&answers, "/apis/group-499.example/v1", JSON).is_some());
    assert!(found(&answers, "/apis/group-0.example/v1", JSON).is_none());

    let mut random = fastrand::Rng::with_seed(1);
    let noise: String = (0..MAX_BYTES * 3 / 4)
        .map(|_| random.alphanumeric())
        .collect();
    for n in 0..10 {
        let question = asked(&format!("/apis/large-{n}.example/v1"), JSON).unwrap();
        answers.remember(question, json(&noise));
        assert!(answers.bytes <= MAX_BYTES, "{} bytes", answers.bytes);
    }
    let size = |(question, answer): (&Question, &Discovered)| question.bytes(answer);
    assert_eq!(answers.iter().map(size).sum::<usize>(), answers.bytes);
    for question in own {
        assert!(answers.find(question).is_some(), "{question:?}");
    }
    let question = asked("/apis/large.example/v1", JSON).unwrap();
    let twice = format!("{noise}{}", noise.chars().rev().collect::<String>());
    assert_eq!(answers.remember(question, json(&twice)), Novelty::NotTaken);
}

#[test]
fn a_change_is_told_from_the_same_again() {
    let (mut answers, question) = (Answers::default(), asked("/version", JSON).unwrap());
    for (text, novelty) in [
        ("1.36", Novelty::First),
        ("1.36", Novelty::Same),
        ("1.37", Novelty::Changed),
    ] {
        assert_eq!(answers.remember(question.clone(), json(text)), novelty);
    }
    assert_eq!(found(&answers, "/version", "*/*").unwrap(), "1.37");
}

#[test]
fn what_is_no_discovery_is_not_taken_back_from_disk() {
    let mut answers = Answers::default();
    let secret = Question::fixed(("/api/v1/namespaces/x/secrets/y", JSON));
    assert!(answers.restore(secret.clone(), json("secret")).is_err());
    assert_eq!(answers.remember(secret, json("secret")), Novelty::NotTaken);
    let broken = Discovered {
        body: Compressed::from_bytes(&[1, 2]),
        ..json("")
    };
    assert!(
        answers
            .restore(asked("/api", JSON).unwrap(), broken)
            .is_err()
    );
    assert_eq!(answers.iter().count(), 0);
}
