/** What the machine gives its containers: control groups, engines, limits, the kernel's settings. */
import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { NodeConfiguration } from "../../agent/main.ts";
import type { Io } from "../io.ts";
import { oneLine } from "../output.ts";
import { runProgram } from "../system-program.ts";
import { type Check, note, well, wrong } from "./check.ts";

const ENGINES = ["docker", "podman", "nerdctl"] as const;
const ENGINE_TIMEOUT_MS = 10_000;
const FILES_MIN = 8_192;
const PORTS_MIN = 1_024;
/** `vm.overcommit_memory`: memory is promised only as far as it is there. */
const NEVER_OVERCOMMIT = "2";

export function checkMachine(): Check[] {
  return [checkNode(), checkCgroups(), checkOpenFiles(), checkPorts(), checkMemory(), checkSwap()];
}

function checkNode(): Check {
  const { version } = process;
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return well("node", version);
  return wrong("node", version, "install Node.js 22.18 or newer");
}

function checkCgroups(): Check {
  const mount = "/sys/fs/cgroup";
  const isVersion2 = existsSync(join(mount, "cgroup.controllers"));
  const hint =
    "without them memory is watched and not enforced; `selvedge node install` delegates them";
  const membership = read("/proc/self/cgroup") ?? "";
  const pattern = isVersion2 ? /^0::(.*)$/m : /^\d+:[^:]*\bmemory\b[^:]*:(.*)$/m;
  const own = pattern.exec(membership)?.[1];
  if (own === undefined) return note("cgroups", "no memory controller", hint);
  const group = join(mount, isVersion2 ? "" : "memory", own);
  const version = isVersion2 ? "version 2" : "version 1";
  try {
    accessSync(group, constants.W_OK);
    return well("cgroups", `${version}, ${group} is writable`);
  } catch {
    return note("cgroups", `${version}, ${group} is not writable for this user`, hint);
  }
}

/** Wrong only where the configuration counts on one. */
export async function checkEngines(
  io: Io,
  configuration: NodeConfiguration | undefined,
): Promise<Check> {
  const isNeeded = configuration?.runtimes.includes("docker") === true;
  const named = configuration?.dockerCommand;
  const reasons: string[] = [];
  for (const engine of named === undefined ? ENGINES : [named]) {
    const { exitCode, stdout, stderr } = await runProgram(io, engine, ["info"], ENGINE_TIMEOUT_MS);
    if (exitCode === 0) return well("containers", `${engine} answers`);
    const said = oneLine(`${stderr} ${stdout}`).slice(0, 200);
    if (!said.includes("ENOENT")) reasons.push(`${engine}: ${said}`);
  }
  const finding = reasons.length > 0 ? reasons.join("; ") : "no docker, podman or nerdctl";
  const hint = "install and start one, and let this user reach its engine";
  return isNeeded ? wrong("containers", finding, hint) : note("containers", finding);
}

function checkOpenFiles(): Check {
  const line = /^Max open files +(\d+|unlimited) +(\d+|unlimited)/m.exec(
    read("/proc/self/limits") ?? "",
  );
  const hard = line?.[2] === "unlimited" ? Number.POSITIVE_INFINITY : Number(line?.[2] ?? 0);
  if (hard >= FILES_MIN) return well("open files", `${line?.[2]} at most`);
  return note("open files", `${hard} at most`, "raise LimitNOFILE of the unit, or ulimit -n");
}

function checkPorts(): Check {
  const [first = 0, last = 0] = (read("/proc/sys/net/ipv4/ip_local_port_range") ?? "")
    .split(/\s+/)
    .map(Number);
  const count = last - first + 1;
  if (count >= PORTS_MIN) return well("ports", `${first} to ${last} for containers`);
  return note("ports", `${count} for containers`, "widen net.ipv4.ip_local_port_range");
}

function checkMemory(): Check {
  if (read("/proc/sys/vm/overcommit_memory") !== NEVER_OVERCOMMIT) {
    return well("overcommit", "allowed");
  }
  const hint = "Node.js, Java and Go reserve much more than they use: set vm.overcommit_memory=0";
  return note("overcommit", "never: memory may be refused although it is free", hint);
}

function checkSwap(): Check {
  const areas = (read("/proc/swaps") ?? "").split("\n").slice(1).filter(Boolean);
  if (areas.length === 0) return well("swap", "none");
  const hint = "containers that are beyond their memory become slow instead of ending: swapoff -a";
  return note("swap", `${areas.length} areas`, hint);
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}
