//! What the command line says, word for word.

#[test]
fn the_command_line_answers_as_written_down() {
    trycmd::TestCases::new()
        // Errors look as users see them, whatever the developer has set.
        .env("RUST_BACKTRACE", "0")
        .case("tests/cmd/*.trycmd");
}
