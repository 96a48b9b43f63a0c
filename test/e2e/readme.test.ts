/**
 * README's "Use it": every command of its blocks, run as it stands there, against a real cluster
 * with the example that `npm start` launches. Only the port and where the token lies are replaced.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isAvailable } from "../../scripts/prerequisites.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { readProjectFile } from "../support/source-files.ts";
import { openTerminal, type Terminal } from "../support/terminal.ts";

const section = readProjectFile("README.md").split("\n## Use it\n")[1]?.split("\n## ")[0] ?? "";
const commands = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block]) =>
  (block ?? "").replaceAll("\\\n", " ").split("\n").filter(Boolean),
);
const selvedges = commands.filter((command) => command.startsWith("npx selvedge "));
const requests = commands.filter((command) => command.startsWith("curl "));

let cluster: TestCluster;
let terminal: Terminal;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2 });
  terminal = openTerminal(cluster);
  await terminal.selvedge("service", "launch", "examples/hello-world/Yarnfile.yaml", "--wait");
});

afterAll(async () => {
  await cluster.dispose();
});

async function curl(command: string): Promise<string> {
  const text = command.replaceAll("http://127.0.0.1:8088", cluster.url);
  const child = spawn(
    "/bin/sh",
    ["-c", text.replace("curl ", "curl --silent --show-error --fail ")],
    {
      env: { PATH: process.env["PATH"] ?? "", TOKEN: cluster.token },
    },
  );
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (more: string) => {
    printed += more;
  });
  child.stderr.setEncoding("utf8").on("data", (more: string) => {
    printed += more;
  });
  const [exitCode] = (await once(child, "close")) as [number | null];
  expect(exitCode, printed).toBe(0);
  return printed;
}

describe("README's commands", () => {
  it("are found", () => {
    expect(selvedges.length).toBeGreaterThan(5);
    expect(requests.length).toBeGreaterThan(1);
  });

  it.skipIf(!isAvailable("curl")).each(requests)("%s", async (command) => {
    expect(await curl(command)).toContain("hello");
  });

  it.each(selvedges)("%s", async (command) => {
    // Following a log has no end of its own.
    const words = command
      .split(" ")
      .slice(2)
      .filter((word) => word !== "-f");
    const { exitCode, stderr } = await terminal.selvedge(...words);
    expect(exitCode, stderr).toBe(0);
  });
});
