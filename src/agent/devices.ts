/**
 * GPUs and other countable devices of the machine (YARN's resource plug-ins): what there is, by an
 * operator's script or by what the machine shows, and which container holds which. A device is one
 * container's at a time. Assignments are in the containers' records, from where a restarted agent
 * takes them again.
 */
import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { dirname, isAbsolute, join, normalize } from "node:path";
import * as z from "zod";
import { fail, ok, type Reply } from "../shared/errors.ts";
import type { ContainerId } from "../shared/ids.ts";
import { RESOURCE_NAME, type Resource } from "../shared/resource.ts";
import { checkTrustedFile } from "./trusted-file.ts";

const GPU = "yarn.io/gpu";
const DISCOVERY_TIMEOUT_MS = 30_000;
const OUTPUT_BYTES_MAX = 1_048_576;
const DEVICES_MAX = 1_024;
/** Which every process that uses an NVIDIA GPU needs besides. */
const NVIDIA_CONTROL = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];

const devicePath = z
  .string()
  .refine((path) => isAbsolute(path) && normalize(path) === path && path.startsWith("/dev/"), {
    message: "a path below /dev",
  })
  .refine((path) => !/[:,\s]/.test(path), "a path without colons, commas and blanks");

const deviceSchema = z.strictObject({
  /** Resource type such as `yarn.io/gpu`. */
  type: z.string().regex(RESOURCE_NAME, "a resource type such as yarn.io/gpu"),
  /** Unique among its type on this machine, such as `0` or a UUID; shown to containers. */
  id: z.string().regex(/^[A-Za-z0-9_.:-]{1,128}$/, "letters, digits, _ . : -"),
  /** Device files that a container with a file system of its own gets. */
  paths: z.array(devicePath).max(32).default([]),
  /** Added to its container's environment. */
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string().max(1_024)).default({}),
});
export type Device = z.infer<typeof deviceSchema>;

/** Ids by resource type. */
export type DeviceAssignment = Readonly<Record<string, readonly string[]>>;

/**
 * Runs the operator's script, which prints one JSON object for each device; without a script, looks
 * for NVIDIA GPUs in `/dev`. Fails with the line that is wrong, or with what the script said.
 */
export async function discoverDevices(
  script: string | undefined,
  devDirectory = "/dev",
): Promise<Reply<readonly Device[]>> {
  if (script === undefined) return ok(await nvidiaDevices(devDirectory));
  // It runs with the agent's rights.
  const trusted = await checkTrustedFile(script, dirname(script));
  if (!trusted.ok) return trusted;
  const output = await outputOf(trusted.value);
  return output.ok ? parseDevices(output.value) : output;
}

function outputOf(script: string): Promise<Reply<string>> {
  const options = {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin" },
    timeout: DISCOVERY_TIMEOUT_MS,
    killSignal: "SIGKILL",
    maxBuffer: OUTPUT_BYTES_MAX,
  } as const;
  return new Promise((resolve) => {
    execFile(script, [], options, (error, stdout, stderr) => {
      if (!error) return resolve(ok(stdout));
      const why = stderr.trim().split("\n").at(-1) || error.message;
      resolve(fail("FAILED_PRECONDITION", `the device script ${script} failed: ${why}`));
    });
  });
}

function parseDevices(text: string): Reply<readonly Device[]> {
  const devices: Device[] = [];
  const seen = new Set<string>();
  for (const [index, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    const wrong = (why: string) =>
      fail("INVALID_ARGUMENT", `line ${index + 1} of the device script's output: ${why}`, {
        hint: '{"type": "yarn.io/gpu", "id": "0", "paths": ["/dev/nvidia0"], "env": {}}',
      });
    const parsed = deviceSchema.safeParse(parseJson(line));
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return wrong(`${issue?.path.join(".") || "the line"}: ${issue?.message ?? "no device"}`);
    }
    const key = `${parsed.data.type} ${parsed.data.id}`;
    if (seen.has(key)) return wrong(`${key} is there twice`);
    if (devices.length === DEVICES_MAX) return wrong(`more than ${DEVICES_MAX} devices`);
    seen.add(key);
    devices.push(parsed.data);
  }
  return ok(devices);
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

async function nvidiaDevices(directory: string): Promise<Device[]> {
  const names = await readdir(directory).catch(() => []);
  const control = names.filter((name) => NVIDIA_CONTROL.includes(name));
  return names
    .flatMap((name) => /^nvidia(\d+)$/.exec(name)?.[1] ?? [])
    .toSorted((a, b) => Number(a) - Number(b))
    .map((id) => ({
      type: GPU,
      id,
      paths: [`nvidia${id}`, ...control.toSorted()].map((name) => join(directory, name)),
      env: {},
    }));
}

/** Assigns a node's devices to its containers. Synchronous, so that two never get the same one. */
export class DeviceAllocator {
  readonly #devices: readonly Device[];
  readonly #assigned = new Map<ContainerId, DeviceAssignment>();

  constructor(devices: readonly Device[]) {
    this.#devices = devices;
  }

  /** What the node's capability has in `extra`: how many there are of each type. */
  get counts(): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const { type } of this.#devices) counts[type] = (counts[type] ?? 0) + 1;
    return counts;
  }

  /**
   * Takes as many devices of each type as the container was granted. Resource types of which the
   * machine has no device at all are mere numbers (licences, say) and get nothing. Asked again it
   * answers the same. Fails with RESOURCE_EXHAUSTED, taking nothing, when too few are free.
   */
  assign(containerId: ContainerId, resource: Resource): Reply<DeviceAssignment> {
    const known = this.#assigned.get(containerId);
    if (known) return ok(known);
    const assignment: Record<string, readonly string[]> = {};
    for (const [type, count] of Object.entries(resource.extra ?? {})) {
      const all = this.#devices.filter((device) => device.type === type);
      if (count === 0 || all.length === 0) continue;
      const taken = this.#taken(type);
      const free = all.filter(({ id }) => !taken.has(id)).map(({ id }) => id);
      if (free.length < count) {
        const figures = `${count} of ${type}, of which ${free.length} are free on this node`;
        return fail("RESOURCE_EXHAUSTED", `container ${containerId} was granted ${figures}`);
      }
      assignment[type] = free.slice(0, count);
    }
    this.#assigned.set(containerId, assignment);
    return ok(assignment);
  }

  /** Takes what an earlier agent has stored, also of devices that the machine has lost. */
  restore(containerId: ContainerId, assignment: DeviceAssignment): void {
    this.#assigned.set(containerId, assignment);
  }

  /** Who holds devices. */
  get holders(): readonly ContainerId[] {
    return [...this.#assigned.keys()];
  }

  /** When the container's processes are gone. */
  release(containerId: ContainerId): void {
    this.#assigned.delete(containerId);
  }

  /** Device files for a container with a file system of its own; each once. */
  pathsOf(containerId: ContainerId): string[] {
    return [...new Set(this.#devicesOf(containerId).flatMap(({ paths }) => paths))];
  }

  /**
   * `SELVEDGE_DEVICES_YARN_IO_GPU=0,1`, and what NVIDIA's tools read. On a machine with GPUs a
   * container without one is told so: it would see them all otherwise.
   */
  environmentOf(containerId: ContainerId): Readonly<Record<string, string>> {
    const environment: Record<string, string> = {};
    for (const { env } of this.#devicesOf(containerId)) Object.assign(environment, env);
    const assignment = this.#assigned.get(containerId) ?? {};
    for (const type of Object.keys(this.counts)) {
      const ids = (assignment[type] ?? []).join(",");
      environment[`SELVEDGE_DEVICES_${type.toUpperCase().replace(/[^A-Z0-9]/g, "_")}`] = ids;
      if (type !== GPU) continue;
      environment["CUDA_VISIBLE_DEVICES"] = ids;
      environment["NVIDIA_VISIBLE_DEVICES"] = ids || "void";
    }
    return environment;
  }

  #taken(type: string): Set<string> {
    return new Set([...this.#assigned.values()].flatMap((assignment) => assignment[type] ?? []));
  }

  #devicesOf(containerId: ContainerId): Device[] {
    const assignment = this.#assigned.get(containerId) ?? {};
    return this.#devices.filter(({ type, id }) => assignment[type]?.includes(id));
  }
}
