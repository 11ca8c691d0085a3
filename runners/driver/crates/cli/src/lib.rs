//! The command lines of `speedbench`: its own, and those that imitate other programs.

pub mod arguments;
pub mod duel;
pub mod endpoint;
pub mod memcached_benchmark;
pub mod memtier_benchmark;
pub mod reconnecting;
pub mod redis_benchmark;
pub mod run;
pub mod suggestions;
pub mod uri;
pub mod values;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use arguments::{Advice, Parsed, without_value};
use engine::resources;
use machine::{counters, signals};
use text::failure::Failure;
use text::output::print;

const SEE_HELP: &str = "see `speedbench --help`";
const ABOUT: &str = "Measure a server that speaks RESP (Redis, Valkey) or the protocol of memcached";

/// A command line that imitates another program, under one of its names.
struct FrontEnd {
    name: &'static str,
    command: fn(&'static str) -> Command,
    run: fn(&'static str, Vec<OsString>) -> Result<(), Failure>,
}

fn front_ends() -> impl Iterator<Item = FrontEnd> {
    let redis = redis_benchmark::NAMES.map(|name| FrontEnd {
        name,
        command: redis_benchmark::command,
        run: redis_benchmark::run,
    });
    let memcached = memcached_benchmark::NAMES.map(|name| FrontEnd {
        name,
        command: memcached_benchmark::command,
        run: memcached_benchmark::run,
    });
    let memtier = memtier_benchmark::NAMES.map(|name| FrontEnd {
        name,
        command: memtier_benchmark::command,
        run: memtier_benchmark::run,
    });
    redis.into_iter().chain(memcached).chain(memtier)
}

fn front_end(name: &OsStr) -> Option<FrontEnd> {
    front_ends().find(|front_end| name == front_end.name)
}

/// Run the command line `words`, the program's name first. The name may be that of a front end.
pub fn run(words: Vec<OsString>) -> Result<(), Failure> {
    signals::note_all();
    let ended = run_named(words);
    // What a signal interrupted may have failed by it.
    ended.or_else(|failure| resources::check_signals().and(Err(failure)))
}

fn run_named(words: Vec<OsString>) -> Result<(), Failure> {
    let called = words.first().and_then(|name| Path::new(name).file_name()).unwrap_or_default();
    match (front_end(called), words.get(1).and_then(|word| front_end(word))) {
        (Some(front_end), _) => (front_end.run)(front_end.name, words[1..].to_vec()),
        (None, Some(front_end)) => (front_end.run)(front_end.name, words[2..].to_vec()),
        (None, None) => run_native(&words),
    }
}

fn run_native(words: &[OsString]) -> Result<(), Failure> {
    let [program, first, rest @ ..] = words else {
        return Err(Failure::usage("no command given", "say `speedbench run`, or --help"));
    };
    let program = [program, first].map(|word| word.to_string_lossy().into_owned());
    match program[1].as_str() {
        "run" => run::run(&program, rest.to_vec()),
        "replay" => run::run(&program, words_of_replay(rest)?),
        "duel" => duel::run(&program, rest.to_vec()),
        "compare" => compare(rest.to_vec()),
        "join" => join(rest.to_vec()),
        "counters" => print(&format!("{}\n", counters::offered())),
        "completions" => completions(rest.first()),
        "help" | "--help" | "-h" if rest.is_empty() => print(&command().render_help().to_string()),
        "help" => help(&rest[0]),
        "--version" | "-v" | "-V" | "version" => {
            print(&format!("speedbench {}\n", env!("CARGO_PKG_VERSION")))
        }
        other => Err(unknown(other)),
    }
}

/// The words of `run` that do what `replay` does with `words`: a recording is one more source of requests.
fn words_of_replay(words: &[OsString]) -> Result<Vec<OsString>, Failure> {
    match words.first().map(|word| word.to_string_lossy()).as_deref() {
        Some("-h" | "--help") => Ok(words.to_vec()),
        Some(word) if !word.starts_with('-') => {
            Ok([OsString::from("--replay")].into_iter().chain(words.to_vec()).collect())
        }
        _ => Err(Failure::usage(
            "no recording given",
            "say `speedbench replay FILE`, with its options after it",
        )),
    }
}

/// Print the help of the command `word`.
fn help(word: &OsString) -> Result<(), Failure> {
    let commands = command();
    let name = word.to_string_lossy();
    match commands.get_subcommands().find(|command| command.get_name() == name) {
        Some(command) => print(&command.clone().render_help().to_string()),
        None => Err(unknown(&name)),
    }
}

/// The failure of the first word, which is no command.
fn unknown(word: &str) -> Failure {
    let commands = command();
    let names = commands.get_subcommands().map(Command::get_name);
    let is_test =
        ["ping", "set", "get", "incr"].contains(&word.split([':', '+', ',']).next().unwrap_or(word));
    let remedy = match suggestions::nearest(word, names) {
        _ if word.starts_with('-') => {
            let option = word.split('=').next().unwrap_or(word);
            let option = &option[..option
                .char_indices()
                .nth(2)
                .map_or(option.len(), |(at, _)| if option.starts_with("--") { option.len() } else { at })];
            return Failure::usage(
                format!("no command given before {option}"),
                format!("say `speedbench run {option} ...`; {SEE_HELP}"),
            );
        }
        _ if is_test => format!("say `speedbench run -t {word}`"),
        Some(name) => format!("did you mean `speedbench {name}`?"),
        None => SEE_HELP.to_owned(),
    };
    Failure::usage(format!("invalid command '{}'", without_value(word)), remedy)
}

fn compare(words: Vec<OsString>) -> Result<(), Failure> {
    let command = arguments::command::<compare::options::Options>("speedbench compare", Some(compare::ABOUT));
    match arguments::parse(command, words, Advice::see("see `speedbench compare --help`"))? {
        Parsed::Options(options, _) => print(&compare::run(&options)?),
        Parsed::Text(text) => print(&text),
    }
}

fn join(words: Vec<OsString>) -> Result<(), Failure> {
    let command = arguments::command::<join::options::Options>("speedbench join", Some(join::ABOUT));
    match arguments::parse(command, words, Advice::see("see `speedbench join --help`"))? {
        Parsed::Options(options, _) => print(&join::run(&options)?),
        Parsed::Text(text) => print(&text),
    }
}

/// Print the completion script of a shell.
fn completions(shell: Option<&OsString>) -> Result<(), Failure> {
    let shell = shell.and_then(|name| name.to_str()).and_then(|name| name.parse::<Shell>().ok());
    let shell = shell.ok_or_else(|| {
        Failure::usage("completions are for a shell", "give bash, elvish, fish, powershell or zsh")
    })?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "speedbench", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// All command lines, for help and completion.
fn command() -> Command {
    let native = [
        run::command().name("run").about("measure, and write the results"),
        run::command()
            .name("replay")
            .about("FILE [OPTIONS]: run --replay FILE, which plays recorded traffic"),
        duel::command()
            .name("duel")
            .about("measure two servers beside each other, and judge one by the other"),
        arguments::command::<compare::options::Options>("speedbench compare", None)
            .name("compare")
            .about("results with each other"),
        arguments::command::<join::options::Options>("speedbench join", None)
            .name("join")
            .about("the results of machines that shared one load, as one"),
        Command::new("counters").about("what the kernel can count of a server here"),
        Command::new("completions")
            .about("completion script of a shell: bash, elvish, fish, powershell or zsh"),
    ];
    let imitations = front_ends().filter(|front_end| front_end.name.contains('-')).map(|front_end| {
        let about = format!("as {}; see its --help", front_end.name);
        (front_end.command)(front_end.name).about(about)
    });
    Command::new("speedbench")
        .about(ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .override_usage("speedbench run [OPTIONS]\n       speedbench COMMAND [OPTIONS]")
        .after_help("`speedbench COMMAND --help` lists the options of a command.")
        .subcommands(native.into_iter().chain(imitations))
}
