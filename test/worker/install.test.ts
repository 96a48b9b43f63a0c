/** `GET /install.sh`: a real shell runs the script against a real server. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Hono } from "hono";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { VERSION } from "../../src/shared/version.ts";
import { addEndpoints } from "../../src/worker/endpoint.ts";
import type { AppEnv } from "../../src/worker/protocols.ts";
import { commandSource, installEndpoint } from "../../src/worker/routes/install.ts";

const COMMAND = "#!/usr/bin/env node\nconsole.log('it runs');\n";
const SHA256 = createHash("sha256").update(COMMAND).digest("hex");

async function get(url?: string, sha256?: string): Promise<Response> {
  const app = new Hono<AppEnv>();
  addEndpoints(app, [installEndpoint(() => commandSource(url, sha256))]);
  return app.request("/install.sh");
}

describe("the installer", () => {
  let server: Server;
  let url: string;
  let prefix: string;
  beforeEach(async () => {
    prefix = mkdtempSync(join(tmpdir(), "selvedge-install-"));
    server = createServer((_request, response) => response.end(COMMAND));
    await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/selvedge.mjs`;
  });
  afterEach(() => {
    server.close();
    rmSync(prefix, { recursive: true, force: true });
  });

  /** Feeds the script to a shell as `curl … | sh` does. */
  function run(script: string): Promise<{ code: number; stdout: string; stderr: string }> {
    const env = { PATH: process.env["PATH"] ?? "", HOME: prefix, SELVEDGE_PREFIX: prefix };
    return new Promise((resolve) => {
      const shell = execFile("sh", [], { env }, (error, stdout, stderr) => {
        resolve({ code: Number(error?.code ?? 0), stdout, stderr });
      });
      shell.stdin?.end(script);
    });
  }

  it("[NM116] installs exactly the file that was promised, ready to run", async () => {
    const response = await get(url, SHA256);
    expect(response.headers.get("content-type")).toBe("text/x-shellscript; charset=utf-8");
    const ran = await run(await response.text());
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toContain(`selvedge ${VERSION} is installed as ${prefix}/bin/selvedge\n`);
    const command = await new Promise((resolve) =>
      execFile(join(prefix, "bin", "selvedge"), (_error, stdout) => resolve(stdout)),
    );
    expect(command).toBe("it runs\n");
    expect(await run(await (await get(url, SHA256)).text())).toMatchObject({ code: 0 });
  });

  it("[NM116] leaves nothing of a file that is another one", async () => {
    const ran = await run(await (await get(url, "0".repeat(64))).text());
    expect(ran.code).toBe(1);
    expect(ran.stderr).toBe(
      `error: the download has the SHA-256 ${SHA256} and not ${"0".repeat(64)}\n`,
    );
    expect(readdirSync(join(prefix, "lib", "selvedge"))).toEqual([]);
    expect(existsSync(join(prefix, "bin", "selvedge"))).toBe(false);
  });

  it("[NM116] does nothing when only half of it arrives", async () => {
    const script = await (await get(url, SHA256)).text();
    await run(script.slice(0, script.lastIndexOf("main")));
    expect(readdirSync(prefix)).toEqual([]);
  });

  it("[NM116] says so when the file cannot be had", async () => {
    const script = await (await get("http://127.0.0.1:9/x", SHA256)).text();
    expect((await run(script)).stderr).toContain("error: the download failed\n");
  });
});

it("[NM116] a deployment that does not say where the command lies has no installer", async () => {
  const response = await get();
  expect(response.status).toBe(404);
  expect(await response.text()).toContain("npm run build");
});

it("[NM116] what could not stand safely in a script is refused", () => {
  for (const [url, sha256] of [
    ["http://example.com/x", SHA256],
    ["https://u:p@example.com/x", SHA256],
    ["https://example.com/x", "abc"],
    ["https://example.com/x", undefined],
    [undefined, SHA256],
    ["javascript:alert(1)", SHA256],
  ]) {
    expect(commandSource(url, sha256)).toMatchObject({ ok: false });
  }
  const source = commandSource("https://example.com/a'$(x)`y`", SHA256);
  expect(source).toMatchObject({ ok: true, value: { url: "https://example.com/a%27$(x)%60y%60" } });
});
