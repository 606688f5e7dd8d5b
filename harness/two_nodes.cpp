// two_nodes: namespaces, a cable, and the files that mpirun reads.
#include "harness/two_nodes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr const char* cable = "cable";
// Of the range that is set apart for tests of networks (RFC 2544): no route leads there.
constexpr std::array addresses = {"198.18.0.1", "198.18.0.2"};
constexpr auto tool_deadline = std::chrono::seconds(10);
constexpr auto life = std::chrono::hours(24);  // of a node; its object ends it earlier

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

[[noreturn]] void fail(const std::string& what, const std::string& said) {
  throw Error(ErrorKind::environment, "two nodes",
              fmt::format("{}: {}; expected root, with iproute2 (ip) and util-linux (unshare, "
                          "nsenter)",
                          what, said.empty() ? "no reason was given" : said));
}

std::string network_of(const std::string& process) {
  std::error_code unreadable;
  const auto link = std::filesystem::read_symlink("/proc/" + process + "/ns/net", unreadable);
  return unreadable ? "" : link.string();
}

// A process in namespaces of its own.
std::unique_ptr<Child> start_node() {
  auto child = std::make_unique<Child>(
      std::vector<std::string>{"unshare", "--net", "--uts", "--", "sleep", "infinity"}, life);
  const Deadline limit = Deadline::after(tool_deadline);
  const std::string here = network_of("self");
  for (;;) {
    if (child->ended(std::chrono::milliseconds(1))) {
      fail("no network namespace", last_line(child->result().output));
    }
    const std::string there = network_of(std::to_string(child->pid()));
    if (!there.empty() && there != here) return child;
    if (limit.expired()) fail("no network namespace", "unshare did not come to an end");
  }
}

void run_tool(const std::vector<std::string>& command, const std::string& what) {
  const ChildResult done = run_child(command, tool_deadline);
  if (done.exit_code != 0) fail(what, last_line(done.output));
}

void write_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream file(path);
  file << text << std::flush;
  if (!file || ::chmod(path.c_str(), mode) != 0) {
    throw Error(ErrorKind::environment, path, std::strerror(errno));
  }
}

}  // namespace

TwoNodes::TwoNodes() {
  if (::geteuid() != 0) fail("no network namespace", "this user is not root");
  for (std::unique_ptr<Child>& node : nodes_) node = start_node();
  run_tool(on(0, {"ip", "link", "add", cable, "type", "veth", "peer", "name", cable, "netns",
                  std::to_string(holder(1))}),
           "no cable");
  for (const int node : {0, 1}) set_up(node);
  write_files();
}

void TwoNodes::set_up(int node) const {
  const std::string script = fmt::format(
      "echo {} > /proc/sys/kernel/hostname && ip link set lo up && "
      "ip address add {}/30 dev {} && ip link set {} up",
      name(node), addresses[static_cast<std::size_t>(node)], cable, cable);
  run_tool(on(node, {"/bin/sh", "-c", script}), "no network");
}

void TwoNodes::write_files() const {
  write_file(hostfile(), fmt::format("{} slots=1\n{} slots=1\n", addresses[0], addresses[1]), 0644);
  // As ssh does: the first word names the host, the rest is for its shell.
  std::string agent = "#!/bin/sh\nhost=$1\nshift\ncase $host in\n";
  for (const int node : {0, 1}) {
    agent +=
        fmt::format("{}) node={} ;;\n", addresses[static_cast<std::size_t>(node)], holder(node));
  }
  agent +=
      "*) echo \"no node $host\" >&2; exit 255 ;;\nesac\n"
      "exec nsenter --target $node --net --uts -- /bin/sh -c \"$*\"\n";
  write_file(folder_.file("agent"), agent, 0755);
}

std::vector<std::string> TwoNodes::on(int node, const std::vector<std::string>& command) const {
  std::vector<std::string> out{"nsenter", "--target", std::to_string(holder(node)),
                               "--net",   "--uts",    "--wd=" + folder(),
                               "--"};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

std::map<std::string, std::string> TwoNodes::environment() const {
  return {
      {"PRTE_MCA_plm", "ssh"},
      {"PRTE_MCA_plm_ssh_agent", folder_.file("agent")},
      {"OMPI_MCA_plm_rsh_agent", folder_.file("agent")},  // Open MPI 4
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_btl", "tcp,self"},
      {"OMPI_MCA_btl_tcp_if_include", cable},
      {"TMPDIR", folder()},  // sessions of the nodes' daemons
  };
}

std::string TwoNodes::name(int node) const {
  return fmt::format("shardproof-{}-node{}", ::getpid(), node);
}

std::uint64_t TwoNodes::bytes_sent(int node) const {
  const std::string path = fmt::format("/proc/{}/net/dev", holder(node));
  std::ifstream table(path);
  for (std::string line; std::getline(table, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.find(cable) > colon) continue;
    std::istringstream numbers(line.substr(colon + 1));
    constexpr int received_columns = 8;
    std::uint64_t value = 0;
    for (int column = 0; column <= received_columns; ++column) numbers >> value;
    if (numbers) return value;
  }
  throw Error(ErrorKind::environment, path, "says nothing of the cable between two nodes");
}

}  // namespace shardproof
