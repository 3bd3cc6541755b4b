#include "run/cluster_choice.hpp"
#include "run/convert_command.hpp"
#include "run/doctor_command.hpp"
#include "run/host_command.hpp"
#include "run/kernel_files.hpp"
#include "run/kernels_command.hpp"
#include "run/launcher.hpp"
#include "run/measure_command.hpp"
#include "run/own_gpus.hpp"
#include "run/replay_command.hpp"
#include "run/report_command.hpp"
#include "run/smi_command.hpp"
#include "run/starts.hpp"
#include "run/topology_command.hpp"

#include <phantora/error.hpp>
#include <phantora/version.hpp>

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace {

namespace channel = phantora::channel;
using phantora::run::Per;

void check_sync(const std::string& text) {
  if (text == "conservative") return;
  throw phantora::ConfigError{"--sync " + text + ": only conservative is implemented"};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs the real program on a GPU cluster that you do not have."};
  app.name("phantora");
  app.set_version_flag("--version", "phantora " PHANTORA_VERSION_STRING);
  app.require_subcommand(1);

  phantora::run::LaunchOptions options;
  CLI::App* run = app.add_subcommand("run", "run a program on a simulated cluster");
  run->add_option("--cluster", options.cluster, "PRESET:HOSTSxGPUS, as in h200:2x8, or a TOML file")
      ->required();
  run->add_option("--gpu-memory", options.gpu_memory,
                  "memory of each GPU of the cluster, whatever its kind, as in 80GB");
  std::vector<std::string> databases;
  run->add_option("--kernels", databases,
                  "a kernel database, of phantora measure; repeatable, first hit wins")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  run->add_option("--report", options.report, "write a JSON report");
  run->add_option("--trace", options.trace, "write a trace for Perfetto");
  run->add_option("--record", options.record,
                  "write what the ranks do, which phantora replay runs on other clusters");
  run->add_option("--step-marker", options.step_marker,
                  "what ends a step: an NVTX range or mark, a part of a kernel's name, or "
                  "\"optimizer\"");
  run->add_flag("--label-output", options.label_output,
                "say before each printed line which rank printed it");
  run->add_option_function<std::string>(
      "--host-time",
      [&](const std::string& text) {
        auto policy = phantora::parse_host_time(text);
        if (!policy) {
          throw CLI::ValidationError{
              "--host-time",
              "expected measured, fixed:NS (of up to 12 digits) or off, not " + text};
        }
        policy->scale = options.host_time.scale;
        options.host_time = *policy;
      },
      "measured, fixed:NS or off");
  std::string host_spec;
  CLI::Option* const host_option =
      run->add_option("--host", host_spec,
                      "simulate the job as if on this host: a preset of phantora host --list, a "
                      "file that phantora\n"
                      "host wrote, or \"this\", the machine that it runs on (default: this, if the "
                      "machine has the\n"
                      "cluster's kind of GPUs, else " +
                          options.host.name + ", the host of the built-in data)");
  run->add_option("--host-scale", options.host_time.scale,
                  "simulated per measured host time (default: by this machine's speed beside that "
                  "of --host, measured as it runs)")
      ->excludes(host_option)
      ->check(CLI::NonNegativeNumber)
      ->check([](const std::string& text) {  // nan is not below 0 either
        const bool finite = std::isfinite(std::strtod(text.c_str(), nullptr));
        return std::string{finite ? "" : "expected a finite number, not " + text};
      });
  run->add_option_function<std::string>(
         "--unknown",
         [&](const std::string& text) { options.unknown = *channel::parse_unknown(text); },
         "what the host reads of floating-point values that are not computed: 0, 1 or "
         "normal (a random number that depends on its address); integers: 0, with 1: 1")
      ->check(CLI::IsMember({"0", "1", "normal"}))
      ->default_str(to_string(options.unknown));
  run->add_option_function<std::string>(
         "--routing",
         [&](const std::string& text) { options.routing = *channel::parse_choice(text); },
         "what top-k of up to 512 chooses by scores that are not computed (experts): balanced,\n"
         "random, first (the same ones for all: as uneven as can be) or none (unknown)")
      ->check(CLI::IsMember({"balanced", "random", "first", "none"}))
      ->default_str(to_string(options.routing));
  run->add_option("--selected", options.selected,
                  "share of elements, 0 to 1, that pass masks which are not computed (nonzero, "
                  "x[mask])")
      ->check(CLI::Range(0.0, 1.0))
      ->default_str("1");
  run->add_option_function<std::string>("--sync", check_sync, "conservative")
      ->default_str("conservative");
  const std::map<std::string, Per> kinds = {
      {"gpu", Per::gpu}, {"host", Per::host}, {"run", Per::run}};
  run->add_option_function<std::string>(
         "--per", [&](const std::string& text) { options.per = kinds.at(text); },
         "start COMMAND once per gpu, once per host, or once in the run\n(default: by COMMAND; "
         "torchrun, accelerate, deepspeed: host; mpirun, srun: run; else gpu)")
      ->check(CLI::IsMember({"gpu", "host", "run"}));
  run->add_option("--runnable", options.runnable, "ranks that may run at once (default: the cores)")
      ->check(CLI::PositiveNumber);
  run->add_option("--stall-timeout", options.stall_timeout_s,
                  "seconds without progress after which a run is ended")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->add_option("command", options.command, "-- COMMAND...")->required();
  run->positionals_at_end();

  phantora::run::TopologyOptions topology;
  CLI::App* describe = app.add_subcommand("topology", "show what a cluster looks like");
  describe->add_option("cluster", topology.cluster, "PRESET:HOSTSxGPUS or a TOML file")->required();
  describe->add_option("--format", topology.format, "table, dot, svg or json")
      ->check(CLI::IsMember({"table", "dot", "svg", "json"}))
      ->capture_default_str();
  describe->add_option("--route", topology.route, "two ranks or nodes: the route between them")
      ->expected(2);
  describe
      ->add_option("--cut", topology.cut, "two hosts: the narrowest cut between them, link by link")
      ->expected(2);
  describe->add_option("--at", topology.at, "with what failures leave of the links by then")
      ->capture_default_str();

  phantora::run::ReplayOptions replay;
  CLI::App* again = app.add_subcommand("replay", "run what phantora run --record wrote");
  again->add_option("record", replay.record, "what was recorded")->required();
  phantora::run::add_options(*again, replay);

  phantora::run::ConvertOptions convert;
  CLI::App* conversion = app.add_subcommand(
      "convert",
      "make a workload of PyTorch's profiles (a file for each rank) or of Chakra's execution\n"
      "traces (PREFIX.et), or such a trace of a workload");
  conversion
      ->add_option("paths", convert.paths, "IN... OUT; PREFIX.et stands for a file for each rank")
      ->required()
      ->expected(2, 1 << 20);
  conversion->add_option("--gpu", convert.gpu, "what kernels without a time are priced for")
      ->capture_default_str();

  std::function<void(std::ostream&)> with_kernels;
  phantora::run::add_kernels_command(app, with_kernels);

  phantora::run::MeasureOptions measure;
  CLI::App* measurement = app.add_subcommand(
      "measure", "run a program on this machine's GPU, and time its kernels for --kernels");
  phantora::run::add_options(*measurement, measure);

  phantora::run::SmiOptions smi;
  CLI::App* gpus = app.add_subcommand(
      "smi", "show what the GPUs of running simulations do, as nvidia-smi does of real ones");
  gpus->add_option("--run", smi.run, "the pid of one phantora run (default: all)")
      ->check(CLI::PositiveNumber);
  gpus->add_option("--format", smi.format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();

  CLI::App* joints = gpus->add_subcommand("topo", "how the GPUs and NICs of each host are joined");
  joints->add_flag("-m,--matrix", smi.topology, "as a matrix, which is all there is");

  phantora::run::HostOptions host;
  CLI::App* machine = app.add_subcommand("host", "measure this machine as a host, for --host");
  CLI::Option* const output = machine->add_option("--output", host.output, "write a host profile");
  CLI::Option* const name = machine->add_option("--name", host.name, "what reports call the host");
  machine->add_flag("--list", host.list, "list the built-in hosts instead")
      ->excludes(output)
      ->excludes(name);

  phantora::run::ReportOptions report;
  CLI::App* told = app.add_subcommand(
      "report",
      "show what run or replay wrote with --report, as text or as a page; or compare two");
  told->add_option("file", report.files, "a report, or two to compare")
      ->required()
      ->type_name("FILE [FILE]")
      ->expected(1, 2);
  told->add_option("--html", report.html,
                   "write one page with plots instead, which needs no others");

  phantora::run::DoctorOptions doctor;
  CLI::App* examination = app.add_subcommand(
      "doctor", "say what is missing on this machine to run a program, and how to get it");
  examination->add_option("command", doctor.command,
                          "-- COMMAND... (default: python with PyTorch, of PATH)");
  examination->add_option("--format", doctor.format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  examination->positionals_at_end();

  std::vector<std::string> shell_command;
  CLI::App* shell = app.add_subcommand(
      "shell",
      "run a program (default: your shell) where CUDA programs find their libraries, and "
      "no GPU");
  shell->add_option("command", shell_command, "-- COMMAND...");
  shell->positionals_at_end();

  try {
    app.parse(argc, argv);
    if (*shell) phantora::run::become_shell(shell_command);
    if (*describe) {
      phantora::run::describe_topology(topology, std::cout);
      return 0;
    }
    if (*gpus) {
      smi.topology = joints->parsed();
      phantora::run::show_gpus(smi, std::cout);
      return 0;
    }
    if (*again) return phantora::run::replay(replay);
    if (*examination) return phantora::run::examine(doctor, std::cout);
    if (*told) {
      phantora::run::show_report(report, std::cout);
      return 0;
    }
    if (*conversion) {
      phantora::run::convert(convert, std::cout);
      return 0;
    }
    if (with_kernels) {
      with_kernels(std::cout);
      return 0;
    }
    if (*measurement) return phantora::run::measure(measure);
    if (*machine) {
      phantora::run::describe_host(host, std::cout);
      return 0;
    }
    const phantora::Cluster cluster =
        phantora::run::cluster_of(options.cluster, options.gpu_memory);
    const bool nothing_said = !*host_option && !options.host_time.scale;
    if (host_spec == "this" || (nothing_said && phantora::run::has_gpus_of(cluster))) {
      // CPU time is what it is; calls cost what they cost on the hosts of the built-in data.
      options.host = {.name = "this machine"};
      options.host_time.scale = 1;
    } else if (*host_option) {
      options.host = phantora::host_profile(host_spec);
      options.host_time.host = phantora::slowness(options.host, phantora::host_presets().front());
    } else if (nothing_said) {
      std::cerr << phantora::run::note_on_other_gpus(cluster, options.host.name);
    }
    options.costs = phantora::run::costs_of(databases, cluster);
    return phantora::run::launch(cluster, options);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem);
  } catch (const phantora::ConfigError& problem) {
    std::cerr << "phantora: " << problem.what() << '\n';
    return 2;
  } catch (const phantora::run::CommandError& problem) {
    std::cerr << "phantora: " << problem.what() << '\n';
    return problem.status;
  } catch (const std::exception& problem) {
    std::cerr << "phantora: " << problem.what() << '\n';
    return 70;
  }
}
