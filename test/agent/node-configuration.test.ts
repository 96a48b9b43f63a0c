/** What an operator writes into a node's configuration file, and what the agent makes of it. */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { DEFAULT_LOCALIZATION_LIMITS } from "../../src/agent/localization/localization-limits.ts";
import { startNodeManager } from "../../src/agent/main.ts";
import {
  type NodeConfiguration,
  parseNodeConfiguration,
  parseNodeConfigurationText,
} from "../../src/agent/node-configuration.ts";
import {
  auxiliaryServicesOptionsOf,
  capabilityOf,
  dockerSettingsOf,
  healthOptionsOf,
  monitorOptionsOf,
  osUsersOptionsOf,
  sourceAllowancesOf,
  startOptionsOf,
  webServerOptionsOf,
} from "../../src/agent/node-configuration-options.ts";
import { FAMILIES, PROPERTIES } from "../../src/agent/node-configuration-table.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import { readProjectFile } from "../support/source-files.ts";
import { TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

function read(text: string): NodeConfiguration {
  const reply = parseNodeConfigurationText(text);
  if (!reply.ok) throw new Error(JSON.stringify(reply.error));
  return reply.value;
}

/** `path: message` of every mistake. */
function mistakes(text: string): string[] {
  const reply = parseNodeConfigurationText(text);
  if (reply.ok) throw new Error("was accepted");
  return (reply.error.findings ?? []).map(({ path, message }) => `${path}: ${message}`);
}

describe("a configuration file", () => {
  it("[NM100] says the same in YAML, in JSON, and in Hadoop's text", () => {
    const yaml = read(
      "yarn.nodemanager.local-dirs: [/disk1, /disk2]\n" +
        "yarn.nodemanager.resource.memory-mb: 8192\n" +
        "yarn.nodemanager.vmem-check-enabled: true\n",
    );
    const json = read(
      JSON.stringify({
        "yarn.nodemanager.local-dirs": ["/disk1", "/disk2"],
        "yarn.nodemanager.resource.memory-mb": 8192,
        "yarn.nodemanager.vmem-check-enabled": true,
      }),
    );
    const site = parseNodeConfiguration(
      new Map([
        ["yarn.nodemanager.local-dirs", " file:///disk1, /disk2 "],
        ["yarn.nodemanager.resource.memory-mb", "8192"],
        ["yarn.nodemanager.vmem-check-enabled", "true"],
      ]),
    );
    expect(json).toEqual(yaml);
    expect(site).toEqual({ ok: true, value: yaml });
    expect(yaml.localDirectories).toEqual(["/disk1", "/disk2"]);
    expect(capabilityOf(yaml).memoryMb).toBe(8_192);
    expect(yaml.vmemCheckEnabled).toBe(true);
  });

  it("[NM100] that is empty leaves everything at its default, and nothing reaches out", () => {
    const empty = read("");
    expect(empty.honoured).toEqual({});
    expect(monitorOptionsOf(empty)).toMatchObject({ pmemCheckEnabled: true, intervalMs: 3_000 });
    expect(dockerSettingsOf(empty)).toBeUndefined();
    expect(osUsersOptionsOf(empty)).toBeUndefined();
    expect(webServerOptionsOf(empty)).toBeUndefined();
    expect(auxiliaryServicesOptionsOf(empty)).toBeUndefined();
    expect(healthOptionsOf(empty).scripts).toEqual([]);
  });

  it("[NM101] is refused with all of its mistakes at once, and what would be right", () => {
    expect(
      mistakes(
        "yarn.nodemanager.local-dirs: relative/path\n" +
          "yarn.nodemanager.resource.memory-mb: lots\n" +
          "yarn.nodemanager.pmem-check-enabled: 1\n" +
          "yarn.nodemanager.disk-health-checker.min-healthy-disks: 2\n" +
          "yarn.nodemanager.resource:\n  cpu-vcores: 4\n",
      ),
    ).toEqual([
      "yarn.nodemanager.resource: expects a value, not an object: " +
        "write the whole name in one, such as yarn.nodemanager.resource.…",
    ]);
    expect(
      mistakes(
        "yarn.nodemanager.local-dirs: relative/path\n" +
          "yarn.nodemanager.resource.memory-mb: lots\n" +
          "yarn.nodemanager.pmem-check-enabled: 1\n" +
          "yarn.nodemanager.disk-health-checker.min-healthy-disks: 2\n",
      ),
    ).toEqual([
      'yarn.nodemanager.resource.memory-mb: expects a whole number of MB from -1, not "lots"',
      'yarn.nodemanager.local-dirs: expects absolute paths, separated by commas, not "relative/path"',
      "yarn.nodemanager.pmem-check-enabled: expects true or false, not 1",
      "yarn.nodemanager.disk-health-checker.min-healthy-disks: expects a number from 0 to 1, not 2",
    ]);
  });

  it("[NM102] with a slip in a name is refused with the name that was meant", () => {
    expect(mistakes("yarn.nodemanager.localdirs: /disk")).toEqual([
      "yarn.nodemanager.localdirs: unknown property; did you mean yarn.nodemanager.local-dirs?",
    ]);
    expect(mistakes("selvedge.node.allowed.http-resource: true")).toEqual([
      "selvedge.node.allowed.http-resource: unknown property; " +
        "did you mean selvedge.node.allowed.http-resources?",
    ]);
  });

  it("[NM102] of a whole Hadoop site is taken: what changes nothing here is said", () => {
    const { notes, vcores } = read(
      "yarn.resourcemanager.hostname: rm1\nyarn.nodemanager.recovery.enabled: true\n" +
        "yarn.nodemanager.resource.cpu-vcores: 3\n",
    );
    expect(vcores).toBe(3);
    expect(notes).toEqual([
      "yarn.nodemanager.recovery.enabled has no effect: containers always survive the agent",
      "1 properties are of other daemons and passed over",
    ]);
  });

  it("[NM102] that says one thing by two names is refused", () => {
    expect(
      mistakes(
        "yarn.nodemanager.localizer.fetch.thread-count: 2\n" +
          "yarn.nodemanager.localizer.fetch.threadcount: 3\n",
      ),
    ).toEqual([
      "yarn.nodemanager.localizer.fetch.thread-count: means the same as " +
        "yarn.nodemanager.localizer.fetch.threadcount: keep one of them",
    ]);
  });

  it("[NM186] may be a yarn-site.xml, which says the same", () => {
    const site = `<?xml version="1.0"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<configuration>
  <property>
    <name>yarn.nodemanager.local-dirs</name>
    <value>file:///disk1,
      /disk2</value>
    <description>where they work</description>
  </property>
  <property><name>yarn.nodemanager.resource.memory-mb</name><value> 4096 </value></property>
  <property><name>min.user.id</name><value>500</value><final>true</final></property>
  <property>
    <name>yarn.resourcemanager.webapp.address</name>
    <value>\${yarn.resourcemanager.hostname}:8088</value>
  </property>
</configuration>
`;
    const { localDirectories, memoryMb, minimumUid, notes } = read(site);
    expect({ localDirectories, memoryMb, minimumUid }).toEqual({
      ...{ localDirectories: ["/disk1", "/disk2"], memoryMb: 4_096, minimumUid: 500 },
    });
    expect(notes).toEqual(["1 properties are of other daemons and passed over"]);
    expect(read(`\uFEFF${site}`).memoryMb).toBe(4_096);
  });

  it("[NM186] as XML is refused with every mistake, and with a variable in what is the node's", () => {
    const site = (...properties: readonly (readonly [string, string])[]) =>
      `<configuration>${properties
        .map(([name, value]) => `<property><name>${name}</name><value>${value}</value></property>`)
        .join("")}</configuration>`;
    expect(
      mistakes(
        site(["yarn.nodemanager.local-dirs", "${hadoop.tmp.dir}/local"], ["min.user.id", "${id}"]),
      ),
    ).toEqual([
      'yarn.nodemanager.local-dirs: "${hadoop.tmp.dir}/local" has a variable: write out what it stands for',
      'min.user.id: "${id}" has a variable: write out what it stands for',
    ]);
    expect(mistakes(site(["yarn.nodemanager.localdirs", "/disk"]))).toEqual([
      "yarn.nodemanager.localdirs: unknown property; did you mean yarn.nodemanager.local-dirs?",
    ]);
  });

  it.each([
    ['<!DOCTYPE c [<!ENTITY e SYSTEM "file:///etc/passwd">]><configuration/>', "document type"],
    [
      "<configuration><property><name>min.user.id</name><value>&e;</value></property></configuration>",
      "the entity &e; is not allowed",
    ],
    [
      '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd"/></configuration>',
      "attributes are not allowed",
    ],
    [`<configuration>${"<property>".repeat(50_000)}`, "<property> is not allowed here"],
    ["<configuration><property>", "expects <name>"],
  ])("[NM186] as XML that does more than say properties is refused: %#", (text, message) => {
    expect(mistakes(text).join()).toContain(message);
  });

  it("[NM186] as XML that is too large is refused", () => {
    const text = `<configuration><!--${"x".repeat(LIMITS.requestBodyBytesMax)}--></configuration>`;
    expect(parseNodeConfigurationText(text)).toMatchObject({ ok: false });
  });

  it("is refused as a list, and as anything that is no YAML", () => {
    for (const text of ["- a", "a: [", "just words"]) {
      expect(parseNodeConfigurationText(text)).toMatchObject({ ok: false });
    }
  });
});

describe("what a configuration becomes", () => {
  it("[NM103] health scripts have paths, arguments, and pauses of their own or the common ones", () => {
    const configuration = read(
      "yarn.nodemanager.health-checker.scripts: disks, gpu\n" +
        "yarn.nodemanager.health-checker.interval-ms: 5000\n" +
        "yarn.nodemanager.health-checker.disks.path: /opt/disks.sh\n" +
        "yarn.nodemanager.health-checker.gpu.path: /opt/gpu.sh\n" +
        "yarn.nodemanager.health-checker.gpu.opts: -v --all\n" +
        "yarn.nodemanager.health-checker.gpu.timeout-ms: 9000\n",
    );
    expect(healthOptionsOf(configuration).scripts).toEqual([
      {
        name: "disks",
        path: "/opt/disks.sh",
        arguments: [],
        intervalMs: 5_000,
        timeoutMs: 1_200_000,
      },
      {
        name: "gpu",
        path: "/opt/gpu.sh",
        arguments: ["-v", "--all"],
        intervalMs: 5_000,
        timeoutMs: 9_000,
      },
    ]);
  });

  it("[NM103] a script or service that is described but not listed is a mistake", () => {
    expect(
      mistakes(
        "yarn.nodemanager.health-checker.gpu.path: /opt/gpu.sh\n" +
          "yarn.nodemanager.aux-services.shuffle.path: shuffle.mjs\n",
      ),
    ).toEqual([
      "yarn.nodemanager.health-checker.gpu.path: yarn.nodemanager.health-checker.scripts does not list gpu",
      "yarn.nodemanager.aux-services.shuffle.path: yarn.nodemanager.aux-services does not list shuffle",
    ]);
  });

  it("[NM103] auxiliary services have a module below the directory, and settings of their own", () => {
    const configuration = read(
      "yarn.nodemanager.aux-services: shuffle\n" +
        "selvedge.node.aux-services.directory: /opt/plugins\n" +
        "yarn.nodemanager.aux-services.shuffle.path: shuffle/main.mjs\n" +
        "yarn.nodemanager.aux-services.shuffle.configuration.buffer.path: 12\n",
    );
    expect(auxiliaryServicesOptionsOf(configuration)).toEqual({
      directory: "/opt/plugins",
      services: [
        { name: "shuffle", path: "shuffle/main.mjs", configuration: { "buffer.path": "12" } },
      ],
    });
    expect(
      mistakes(
        "yarn.nodemanager.aux-services: a\n" +
          "yarn.nodemanager.aux-services.a.path: ../../etc/passwd\n" +
          "yarn.nodemanager.aux-services.a.class: org.apache.Shuffle\n",
      ),
    ).toEqual([
      'yarn.nodemanager.aux-services.a.path: expects a path below the directory, not "../../etc/passwd"',
      "yarn.nodemanager.aux-services.a.class: is of no use here: Java classes do not run; " +
        "name an ESM module with ….path",
      "selvedge.node.aux-services.directory: is missing: where do their modules lie?",
      "yarn.nodemanager.aux-services.a.path: is missing: expects the ESM module of the service " +
        "(Java classes do not run)",
    ]);
  });

  it("[NM104] docker runs nothing, mounts nothing and gives no privilege until it is listed", () => {
    const settings = dockerSettingsOf(
      read("yarn.nodemanager.runtime.linux.allowed-runtimes: docker"),
    );
    expect(settings?.allowed).toEqual({
      images: [],
      networks: [],
      readOnlyMounts: [],
      readWriteMounts: [],
      privilegedUsers: [],
    });
    expect(settings?.hardening.capabilities).toEqual([]);
  });

  it("[NM209] exec and ports are open as the operator says, and processes where he lists them", async () => {
    const options = async (text: string) => {
      const reply = await startOptionsOf(read(text), {});
      return reply.ok ? reply.value : undefined;
    };
    expect(await options("")).toMatchObject({
      allowedStreams: { exec: true, forwardPorts: [{ first: 1_024, last: 65_535 }] },
      allowsProcesses: true,
    });
    const closed =
      "selvedge.node.allowed.exec: false\n" +
      "selvedge.node.allowed.forward-ports: ''\n" +
      "yarn.nodemanager.runtime.linux.allowed-runtimes: docker\n";
    expect(await options(closed)).toMatchObject({
      allowedStreams: { exec: false, forwardPorts: [] },
      allowsProcesses: false,
    });
    const some = "selvedge.node.allowed.forward-ports: 80, 8000-8999\n";
    expect((await options(some))?.allowedStreams?.forwardPorts).toEqual([
      { first: 80, last: 80 },
      { first: 8_000, last: 8_999 },
    ]);
    expect(mistakes("selvedge.node.allowed.forward-ports: 90-80\n")).toEqual([
      "selvedge.node.allowed.forward-ports: expects ports and ranges such as 1024-65535, " +
        'separated by commas, not "90-80"',
    ]);
  });

  it("[NM104] the list of privileged users counts only where privileged containers are allowed", () => {
    const acl =
      "yarn.nodemanager.runtime.linux.allowed-runtimes: default,docker\n" +
      "yarn.nodemanager.runtime.linux.docker.privileged-containers.acl: alice\n";
    expect(dockerSettingsOf(read(acl))?.allowed.privilegedUsers).toEqual([]);
    const allowed = `${acl}yarn.nodemanager.runtime.linux.docker.privileged-containers.allowed: true\n`;
    expect(dockerSettingsOf(read(allowed))?.allowed.privilegedUsers).toEqual(["alice"]);
  });

  it("[NM104] users are switched only by the LinuxContainerExecutor, with YARN's rules", () => {
    const mapping = "selvedge.node.user-mapping.alice.b: al\nmin.user.id: 500\n";
    expect(osUsersOptionsOf(read(mapping))).toBeUndefined();
    const executor =
      "yarn.nodemanager.container-executor.class: " +
      "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor\n";
    expect(osUsersOptionsOf(read(executor + mapping))).toMatchObject({
      mapping: { "alice.b": "al" },
      localUser: "nobody",
      byOwnName: false,
      minimumUid: 500,
    });
  });

  it("[NM104] resources come only from where the operator says, and certificates are read at the start", async () => {
    const directory = mkdtempSync(join(tmpdir(), "selvedge-configuration-"));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const file = join(directory, "ca.pem");
    const configuration = read(
      `selvedge.node.localizer.certificate-authority-files: ${file}\n` +
        "selvedge.node.allowed.resource-addresses: 10.20.0.0/16, ::1\n",
    );
    const missing = await startOptionsOf(configuration, {});
    expect(missing).toMatchObject({ ok: false, error: { code: "INVALID_ARGUMENT" } });
    writeFileSync(file, "-----BEGIN CERTIFICATE-----\n");
    expect(await sourceAllowancesOf(configuration, { HTTPS_PROXY: "http://p" })).toEqual({
      ok: true,
      value: {
        http: false,
        addresses: ["10.20.0.0/16", "::1"],
        directories: [],
        certificateAuthorities: ["-----BEGIN CERTIFICATE-----\n"],
        proxyEnvironment: undefined,
      },
    });
  });

  it("the localizer's defaults are those of its module", async () => {
    const options = await startOptionsOf(read(""), {});
    expect(options).toMatchObject({
      ok: true,
      value: { localization: { limits: DEFAULT_LOCALIZATION_LIMITS } },
    });
  });

  it("the web service listens where it is told, also on IPv6", () => {
    const at = (address: string) =>
      webServerOptionsOf(read(`yarn.nodemanager.webapp.address: "${address}"`));
    expect(at("127.0.0.1:8042")).toEqual({ address: "127.0.0.1", port: 8_042 });
    expect(at("[::1]:8042")).toEqual({ address: "::1", port: 8_042 });
  });
});

it("[NM118] an agent registers with what its configuration says, and with what wins over it", async () => {
  const node = await TestNode.create();
  onTestFinished(() => node.close());
  const { capability: _, ...options } = node.options;
  const logs = join(node.home, "other-logs");
  const agent = await startNodeManager({
    ...options,
    labels: ["given"],
    log: () => undefined,
    configuration: read(
      "yarn.nodemanager.resource.memory-mb: 777\nyarn.nodemanager.resource.cpu-vcores: 5\n" +
        "yarn.nodemanager.resource-type.yarn.io/fpga: 1\nselvedge.node.rack: /r7\n" +
        "selvedge.node.attribute.os: linux\n" +
        "yarn.nodemanager.node-labels.provider.configured-node-partition: fast\n" +
        `yarn.nodemanager.log-dirs: ${logs}\n`,
    ),
  });
  onTestFinished(() => agent.close());
  const registration = await node.tracker.until("a registration", () =>
    node.tracker.received.find((message) => message.type === "register"),
  );
  expect(registration.node).toMatchObject({
    capability: { memoryMb: 777, vcores: 5, extra: { "yarn.io/fpga": 1 } },
    rack: "/r7",
    labels: ["given"],
    attributes: { os: "linux" },
  });
  expect(existsSync(logs)).toBe(true);
});

describe("containers of a configured node", () => {
  /** What a container's process says of itself. */
  async function run(configuration: string, command: string, extra = {}) {
    const node = await TestNode.create();
    onTestFinished(() => node.close());
    await node.start({ configuration: read(configuration) });
    const id = await node.run(1, launchContext(command), { extra });
    const { exitStatus, diagnostics } = await node.tracker.untilState(id, "COMPLETE");
    expect({ exitStatus, diagnostics }).toMatchObject({ exitStatus: 0 });
    return node.stdout(id);
  }

  it("[NM104] have the operator's limits, and cannot gain privileges", async () => {
    const said = await run(
      "selvedge.node.rlimit.nofile: 300\n",
      "ulimit -n; grep NoNewPrivs /proc/self/status",
    );
    expect(said).toMatch(/^300\nNoNewPrivs:\s+1\n$/);
  });

  it("[NM189] get the devices that the operator's script names", async () => {
    const directory = mkdtempSync(join(tmpdir(), "selvedge-script-"));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const script = join(directory, "devices.sh");
    const device = { type: "example.com/serial", id: "port7", env: { SERIAL_PORT: "/dev/port7" } };
    writeFileSync(script, `#!/bin/sh\necho '${JSON.stringify(device)}'\n`, { mode: 0o755 });
    const said = await run(
      `selvedge.node.devices.script: ${script}\n`,
      "echo $SELVEDGE_DEVICES_EXAMPLE_COM_SERIAL $SERIAL_PORT",
      { "example.com/serial": 1 },
    );
    expect(said).toBe("port7 /dev/port7\n");
    chmodSync(script, 0o777);
    await expect(run(`selvedge.node.devices.script: ${script}\n`, "true")).rejects.toThrow(
      `others may write to ${script}`,
    );
  });

  it.skipIf(process.getuid?.() !== 0)(
    "[NM104] run as the user of the machine that theirs is mapped to",
    async () => {
      const said = await run(
        "yarn.nodemanager.container-executor.class: LinuxContainerExecutor\n" +
          "selvedge.node.user-mapping.alice: 54321:54321\n",
        "id -u; touch mine && echo done",
      );
      expect(said).toBe("54321\ndone\n");
    },
  );
});

describe("docs/nodes.md", () => {
  it("[NM105] lists every property, with its default", () => {
    const text = readProjectFile("docs/nodes.md");
    for (const { name, default: value } of Object.values(PROPERTIES)) {
      const shown = Array.isArray(value) ? value.join(", ") : String(value ?? "");
      expect(text).toContain(`| \`${name}\` | ${shown === "" ? "–" : shown} |`);
    }
    for (const family of Object.values(FAMILIES)) expect(text).toContain(`\`${family}\``);
  });
});
