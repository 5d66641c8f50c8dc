//! What the command line says, word for word.

#[test]
fn the_command_line_answers_as_written_down() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
