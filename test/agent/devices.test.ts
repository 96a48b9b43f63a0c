import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DeviceService } from "../../src/agent/device-service.ts";
import { type Device, DeviceAllocator, discoverDevices } from "../../src/agent/devices.ts";
import { containerId } from "./test-node.ts";

const gpu = (id: string): Device => ({
  type: "yarn.io/gpu",
  id,
  paths: [`/dev/nvidia${id}`, "/dev/nvidiactl"],
  env: {},
});
const fpga: Device = { type: "example.com/fpga", id: "a", paths: [], env: { FPGA_MODE: "fast" } };
const grant = (extra: Record<string, number>) => ({ memoryMb: 1, vcores: 1, extra });

describe("discovery", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "selvedge-devices-"));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  function script(body: string): string {
    const path = join(directory, "devices.sh");
    writeFileSync(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
    return path;
  }

  it("[NM52] the operator's script names the devices, one JSON line each", async () => {
    const lines = [gpu("0"), fpga].map((device) => JSON.stringify(device));
    const found = await discoverDevices(script(`cat <<'END'\n${lines.join("\n\n")}\nEND`));
    expect(found).toEqual({ ok: true, value: [gpu("0"), fpga] });
    const short = await discoverDevices(script(`echo '{"type":"licence","id":"7"}'`));
    expect(short).toEqual({
      ok: true,
      value: [{ type: "licence", id: "7", paths: [], env: {} }],
    });
  });

  it.each([
    ["nonsense", "line 1 of the device script's output: the line"],
    ['{"type":"yarn.io/gpu","id":"0","paths":["/etc/passwd"]}', "paths.0: a path below /dev"],
    ['{"type":"yarn.io/gpu","id":"0","paths":["/dev/../etc/x"]}', "paths.0: a path below /dev"],
    ['{"type":"g p u","id":"0"}', "type: a resource type such as yarn.io/gpu"],
    ['{"type":"g","id":"0"}\n{"type":"g","id":"0"}', "line 2 of the device script's output: g 0"],
  ])("[NM52] a line that is no device is refused: %s", async (output, reason) => {
    const found = await discoverDevices(script(`cat <<'END'\n${output}\nEND`));
    expect(found.ok ? "" : found.error.message).toContain(reason);
  });

  it("[NM52] a script that fails says why, and sees nothing of the agent's environment", async () => {
    vi.stubEnv("SELVEDGE_TOKEN", "secret");
    try {
      const found = await discoverDevices(script('echo "no driver, $SELVEDGE_TOKEN." >&2; exit 1'));
      expect(found.ok ? "" : found.error.message).toMatch(/devices\.sh failed: no driver, \.$/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("[NM52] a script that others could change is not run", async () => {
    const path = script("echo '{}'");
    chmodSync(path, 0o777);
    const found = await discoverDevices(path);
    expect(found.ok ? "" : found.error.message).toContain("others may write");
  });

  it("[NM52] the example finds the serial ports that there are", async () => {
    const ports = mkdtempSync("/dev/shm/selvedge-ports-");
    try {
      writeFileSync(join(ports, "ttyUSB0"), "");
      writeFileSync(join(ports, "ttyACM1"), "");
      const example = fileURLToPath(
        new URL("../../examples/devices/serial-ports.sh", import.meta.url),
      );
      const found = await discoverDevices(script(`exec sh '${example}' '${ports}'`));
      const port = (id: string) => ({
        ...{ type: "example.com/serial", id, paths: [join(ports, id)] },
        env: { SERIAL_PORT: join(ports, id) },
      });
      expect(found).toEqual({ ok: true, value: [port("ttyUSB0"), port("ttyACM1")] });
    } finally {
      rmSync(ports, { recursive: true, force: true });
    }
  });

  it("[NM52] without a script a machine's NVIDIA GPUs are found", async () => {
    for (const name of ["nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"]) {
      writeFileSync(join(directory, name), "");
    }
    const found = await discoverDevices(undefined, directory);
    const paths = (...names: string[]) => names.map((name) => join(directory, name));
    expect(found).toEqual({
      ok: true,
      value: [
        { ...gpu("2"), paths: paths("nvidia2", "nvidia-uvm", "nvidiactl") },
        { ...gpu("10"), paths: paths("nvidia10", "nvidia-uvm", "nvidiactl") },
      ],
    });
    expect(await discoverDevices(undefined, join(directory, "none"))).toEqual({
      ok: true,
      value: [],
    });
  });
});

describe("assignment", () => {
  it("[NM53] a container is told its own devices, and one without is told that it has none", () => {
    const devices = new DeviceAllocator([gpu("0"), gpu("1"), fpga]);
    expect(devices.counts).toEqual({ "yarn.io/gpu": 2, "example.com/fpga": 1 });
    const request = grant({ "yarn.io/gpu": 2, "example.com/fpga": 1, licence: 3 });
    expect(devices.assign(containerId(1), request)).toEqual({
      ok: true,
      value: { "yarn.io/gpu": ["0", "1"], "example.com/fpga": ["a"] },
    });
    expect(devices.environmentOf(containerId(1))).toEqual({
      SELVEDGE_DEVICES_YARN_IO_GPU: "0,1",
      SELVEDGE_DEVICES_EXAMPLE_COM_FPGA: "a",
      CUDA_VISIBLE_DEVICES: "0,1",
      NVIDIA_VISIBLE_DEVICES: "0,1",
      FPGA_MODE: "fast",
    });
    expect(devices.pathsOf(containerId(1))).toEqual([
      "/dev/nvidia0",
      "/dev/nvidiactl",
      "/dev/nvidia1",
    ]);
    devices.assign(containerId(2), grant({}));
    expect(devices.environmentOf(containerId(2))).toMatchObject({
      CUDA_VISIBLE_DEVICES: "",
      NVIDIA_VISIBLE_DEVICES: "void",
    });
    expect(devices.pathsOf(containerId(2))).toEqual([]);
  });

  it("[NM53] a container that cannot have all of its devices gets none, and is told why", () => {
    const devices = new DeviceAllocator([gpu("0"), fpga]);
    devices.assign(containerId(1), grant({ "yarn.io/gpu": 1 }));
    const refused = devices.assign(
      containerId(2),
      grant({ "example.com/fpga": 1, "yarn.io/gpu": 1 }),
    );
    expect(refused.ok ? "" : refused.error.message).toContain(
      "was granted 1 of yarn.io/gpu, of which 0 are free on this node",
    );
    const next = devices.assign(containerId(3), grant({ "example.com/fpga": 1 }));
    expect(next).toEqual({ ok: true, value: { "example.com/fpga": ["a"] } });
  });

  it("[NM53] a restarted agent takes the assignments of its containers again", () => {
    const devices = new DeviceAllocator([gpu("0"), gpu("1")]);
    devices.restore(containerId(1), { "yarn.io/gpu": ["0"] });
    expect(devices.assign(containerId(1), grant({ "yarn.io/gpu": 1 }))).toMatchObject({
      value: { "yarn.io/gpu": ["0"] },
    });
    expect(devices.assign(containerId(2), grant({ "yarn.io/gpu": 1 }))).toMatchObject({
      value: { "yarn.io/gpu": ["1"] },
    });
  });

  it("[NM53] a device stays its container's over a restart, until the container's end", async () => {
    const directory = mkdtempSync(join(tmpdir(), "selvedge-devices-"));
    const known = new Map(
      [1, 2, 3].map((sequence) => [containerId(sequence), grant({ "yarn.io/gpu": 1 })]),
    );
    const open = () =>
      DeviceService.open({
        devices: [gpu("0"), gpu("1")],
        directory,
        resourceOf: (id) => known.get(id),
        log: () => undefined,
      });
    const container = (sequence: number) => ({
      applicationId: "application_1700000000000_0001",
      user: "alice",
      containerId: containerId(sequence),
      workDirectory: "/work",
      logDirectories: ["/logs"],
    });
    try {
      const first = await open();
      expect(first.counts).toEqual({ "yarn.io/gpu": 2 });
      for (const sequence of [1, 2]) await first.initializeContainer(container(sequence));
      const restarted = await open();
      expect(restarted.pathsOf(containerId(2))).toContain("/dev/nvidia1");
      await expect(restarted.initializeContainer(container(3))).rejects.toThrow("0 are free");
      await restarted.stopContainer(container(1));
      expect(await restarted.initializeContainer(container(3))).toMatchObject({
        SELVEDGE_DEVICES_YARN_IO_GPU: "0",
      });
      known.delete(containerId(2));
      known.set(containerId(4), grant({ "yarn.io/gpu": 1 }));
      const again = await open();
      expect(await again.initializeContainer(container(4))).toMatchObject({
        SELVEDGE_DEVICES_YARN_IO_GPU: "1",
      });
      await expect(again.initializeContainer(container(9))).rejects.toThrow("was granted nothing");
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  it("[NM53] no device is ever two containers', whatever comes and goes", () => {
    const step = fc.record({
      sequence: fc.integer({ min: 1, max: 6 }),
      count: fc.option(fc.integer({ min: 0, max: 4 })),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const devices = new DeviceAllocator(["0", "1", "2", "3"].map(gpu));
        const held = new Map<number, readonly string[]>();
        for (const { sequence, count } of steps) {
          const id = containerId(sequence);
          if (count === null) {
            devices.release(id);
            held.delete(sequence);
            continue;
          }
          const reply = devices.assign(id, grant({ "yarn.io/gpu": count }));
          const others = [...held].filter(([key]) => key !== sequence).flatMap(([, ids]) => ids);
          const expected = held.get(sequence)?.length ?? count;
          expect(reply.ok).toBe(held.has(sequence) || 4 - others.length >= count);
          if (!reply.ok) continue;
          const ids = reply.value["yarn.io/gpu"] ?? [];
          expect(ids).toHaveLength(expected);
          expect(ids.filter((each) => others.includes(each))).toEqual([]);
          held.set(sequence, ids);
        }
      }),
    );
  });
});
