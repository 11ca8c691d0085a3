//! The results of all machines as one.

use std::borrow::Cow;

use crate::machines::MachineFile;
use crate::overlap::Overlap;
use engine::histogram::Histogram;
use engine::latency::LatencyUs;
use report::result::{CommandResult, Errors, Open, ServerResult, SlipUs, TestResult};
use report::steps::StepResult;
use report::usage::{ClientCpu, ServerCpu, Slices};
use text::failure::Failure;
use text::units::{per, round};

/// The result of a load of which `machines` measured all parts.
pub fn test(machines: &[MachineFile], overlap: &Overlap) -> Result<TestResult, Failure> {
    let tests: Vec<&TestResult> = machines.iter().map(MachineFile::test).collect();
    let latency = merged(machines, |test| Some((test.latency_us, &test.latency_hdr_v2)))?.unwrap_or_default();
    let service = merged(machines, |test| test.service_us.zip(test.service_hdr_v2.as_ref()))?;
    let requests = sum(&tests, |test| test.requests);
    let rate: f64 = tests.iter().map(|test| per(test.requests as f64, test.window_s)).sum();
    let first = tests[0];
    Ok(TestResult {
        name: first.name.clone(),
        workload: first.workload.clone(),
        prefill: tests.iter().find_map(|test| test.prefill.clone()),
        mode: first.mode.clone(),
        warmup: first.warmup,
        window_began_ns: first.window_began_ns,
        window_began_at: overlap.began_at,
        window_s: if requests > 0 { round(requests as f64 / rate, 6) } else { overlap.longest_s },
        requests,
        unfinished: sum(&tests, |test| test.unfinished),
        throughput_rps: round(rate, 1),
        hits: sum(&tests, |test| test.hits),
        misses: sum(&tests, |test| test.misses),
        pushes: sum(&tests, |test| test.pushes),
        errors: Errors {
            count: sum(&tests, |test| test.errors.count),
            first: tests.iter().find_map(|test| test.errors.first.clone()),
        },
        latency_us: LatencyUs::of(&latency),
        latency_hdr_v2: latency.to_hdr_base64(),
        service_us: service.as_ref().map(LatencyUs::of),
        service_hdr_v2: service.as_ref().map(Histogram::to_hdr_base64),
        open: open(machines)?,
        commands: commands(machines)?,
        probe: None,
        search: None,
        client_cpu: client_cpu(&tests),
        server_cpu: server_cpu(&tests, requests),
        server: tests.iter().find_map(|test| test.server.clone()),
        server_events: tests.iter().find_map(|test| test.server_events.clone()),
        slices: slices(&tests, overlap),
        servers: servers(&tests),
        steps: steps(machines)?,
        recovery: None,
        flags: flags(&tests),
        findings: Default::default(),
        depth: None,
        latency,
        intervals: Default::default(),
        null_elements: 0,
        traffic: Default::default(),
        opened_ns: Vec::new(),
        clients: Vec::new(),
        cut: None,
    })
}

/// What all machines had of each server.
fn servers(tests: &[&TestResult]) -> Vec<ServerResult> {
    let mut servers: Vec<ServerResult> = Vec::new();
    for more in tests.iter().flat_map(|test| &test.servers) {
        match servers.iter_mut().find(|server| server.address == more.address) {
            Some(server) => {
                server.connections += more.connections;
                server.requests += more.requests;
            }
            None => servers.push(more.clone()),
        }
    }
    servers
}

fn sum(tests: &[&TestResult], count: impl Fn(&TestResult) -> u64) -> u64 {
    tests.iter().map(|test| count(test)).sum()
}

/// The latencies of all machines, of which each exported `part`; none when none did.
fn merged(
    machines: &[MachineFile],
    part: impl for<'a> Fn(&'a TestResult) -> Option<(LatencyUs, &'a String)>,
) -> Result<Option<Histogram>, Failure> {
    let mut merged: Option<Histogram> = None;
    for machine in machines {
        let Some((summary, hdr)) = part(machine.test()) else { continue };
        let latencies = summary.latencies(hdr).map_err(|why| unreadable(machine, &why))?;
        merged.get_or_insert_default().merge(&latencies);
    }
    Ok(merged)
}

fn unreadable(machine: &MachineFile, why: &str) -> Failure {
    Failure::run(
        format!("the latencies of {} cannot be read ({why})", machine.path),
        "write the file again with `run --json`",
    )
}

/// The schedule, whose rate is that of all machines in each document.
fn open(machines: &[MachineFile]) -> Result<Option<Open>, Failure> {
    let mut slip = Histogram::default();
    let (mut unsent, mut spun_ns) = (0, 0);
    for machine in machines {
        let Some(open) = &machine.test().open else { return Ok(None) };
        let late = open.slip_us.lateness(&open.slip_hdr_v2).map_err(|why| unreadable(machine, &why))?;
        slip.merge(&late);
        unsent += open.unsent;
        spun_ns += open.spun_ns;
    }
    let shared = machines[0].test().open.as_ref();
    Ok(shared.map(|open| Open {
        asked_rps: open.asked_rps,
        arrivals: open.arrivals.clone(),
        slip_us: SlipUs::of(&slip),
        slip_hdr_v2: slip.to_hdr_base64(),
        unsent,
        spun_ns,
    }))
}

/// Each command of the load.
fn commands(machines: &[MachineFile]) -> Result<Vec<CommandResult>, Failure> {
    let first = &machines[0].test().commands;
    let joined = first.iter().enumerate().map(|(at, command)| {
        let of = |machine: &MachineFile| machine.test().commands.get(at).map_or(0, |same| same.requests);
        let exported = merged(machines, |test| {
            test.commands.get(at).map(|same| (same.latency_us, &same.latency_hdr_v2))
        });
        let latency = exported?.unwrap_or_default();
        Ok(CommandResult {
            name: command.name.clone(),
            requests: machines.iter().map(of).sum(),
            latency_us: LatencyUs::of(&latency),
            latency_hdr_v2: latency.to_hdr_base64(),
            latency,
            intervals: Vec::new(),
        })
    });
    joined.collect()
}

/// Each step of a ramp, as far as all machines came.
fn steps(machines: &[MachineFile]) -> Result<Vec<StepResult>, Failure> {
    let shortest = machines.iter().map(|machine| machine.test().steps.len()).min().unwrap_or(0);
    let joined = machines[0].test().steps[..shortest].iter().enumerate().map(|(at, step)| {
        let exported =
            merged(machines, |test| test.steps.get(at).map(|same| (same.latency_us, &same.latency_hdr_v2)));
        let requests = machines.iter().map(|machine| machine.test().steps[at].requests).sum();
        Ok(step.clone().counted(requests, &exported?.unwrap_or_default()))
    });
    joined.collect()
}

/// Of all machines; the busiest thread is that of all.
fn client_cpu(tests: &[&TestResult]) -> ClientCpu {
    let usage = || tests.iter().map(|test| &test.client_cpu);
    let (user_ns, system_ns) =
        (usage().map(|cpu| cpu.user_ns).sum::<u64>(), usage().map(|cpu| cpu.system_ns).sum::<u64>());
    ClientCpu {
        user_ns,
        system_ns,
        ns_per_request: round(per((user_ns + system_ns) as f64, sum(tests, |test| test.requests) as f64), 2),
        busiest_thread: usage().map(|cpu| cpu.busiest_thread).fold(0.0, f64::max),
        run_delay_ns: usage().map(|cpu| cpu.run_delay_ns).sum(),
        voluntary_switches: usage().map(|cpu| cpu.voluntary_switches).sum(),
        involuntary_switches: usage().map(|cpu| cpu.involuntary_switches).sum(),
    }
}

/// The clock of the server as the first machine read it that could: on it, the requests of all were served.
fn server_cpu(tests: &[&TestResult], requests: u64) -> Option<ServerCpu> {
    let cpu = tests.iter().find_map(|test| test.server_cpu.as_ref())?;
    Some(ServerCpu {
        pid: cpu.pid,
        ns: cpu.ns,
        ns_per_request: round(per(cpu.ns as f64, requests as f64), 2),
    })
}

/// Slice by slice, as far as all machines have them; those before the last window began are left out.
fn slices(tests: &[&TestResult], overlap: &Overlap) -> Slices {
    let of = |test: &TestResult, counts: &[u64]| -> Vec<u64> {
        counts.iter().skip(overlap.slices_before(test)).copied().collect()
    };
    let requests: Vec<Vec<u64>> = tests.iter().map(|test| of(test, &test.slices.requests)).collect();
    let client: Vec<Vec<u64>> = tests.iter().map(|test| of(test, &test.slices.client_cpu_ns)).collect();
    let server = tests.iter().find(|test| !test.slices.server_cpu_ns.is_empty());
    let requests = added(&requests);
    let mut server_cpu_ns = server.map_or(Vec::new(), |test| of(test, &test.slices.server_cpu_ns));
    server_cpu_ns.truncate(requests.len());
    Slices { width_ms: tests[0].slices.width_ms, requests, server_cpu_ns, client_cpu_ns: added(&client) }
}

/// The sums of what stands at the same place of all `lists`.
fn added(lists: &[Vec<u64>]) -> Vec<u64> {
    let shortest = lists.iter().map(Vec::len).min().unwrap_or(0);
    (0..shortest).map(|at| lists.iter().map(|list| list[at]).sum()).collect()
}

/// Those that a machine raised.
fn flags(tests: &[&TestResult]) -> Vec<Cow<'static, str>> {
    let mut flags = Vec::new();
    for flag in tests.iter().flat_map(|test| &test.flags) {
        if !flags.contains(flag) {
            flags.push(flag.clone());
        }
    }
    flags
}
