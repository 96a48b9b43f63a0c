/** One node's localization for a test: real directories, a real HTTP server, nothing left behind. */
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type LocalizedPaths,
  ResourceLocalizationService,
  type ResourceLocalizationServiceOptions,
} from "../../src/agent/localization/resource-localization-service.ts";
import type { LogLine } from "../../src/agent/log.ts";
import type { LocalResource } from "../../src/shared/container.ts";
import type { Reply } from "../../src/shared/errors.ts";

export const APPLICATION = "application_1700000000000_0001";
export const OTHER_APPLICATION = "application_1700000000000_0002";

export function sha256(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

export function unwrap<Value>(reply: Reply<Value>): Value {
  if (!reply.ok) throw new Error(reply.error.message);
  return reply.value;
}

/** Of a reply that must be a failure. */
export function messageOf(reply: Reply<unknown>): string {
  if (reply.ok) throw new Error("it did not fail");
  return reply.error.message;
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Serves by path; every request is kept. */
export class FileServer {
  readonly requests: IncomingMessage[] = [];
  readonly #handlers = new Map<string, Handler>();
  readonly #server: Server;
  readonly url: string;

  private constructor(server: Server, scheme: string) {
    this.#server = server;
    this.url = `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      this.requests.push(request);
      const path = request.url?.split("?")[0] ?? "";
      const handler = this.#handlers.get(path);
      if (handler) handler(request, response);
      else response.writeHead(404).end();
    });
  }

  /** `tls`: key and certificate. */
  static async start(tls?: { readonly key: string; readonly cert: string }): Promise<FileServer> {
    const server = tls ? createTlsServer(tls) : createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new FileServer(server, tls ? "https" : "http");
  }

  /** Answers with the URL. */
  on(path: string, handler: Handler): string {
    this.#handlers.set(path, handler);
    return `${this.url}${path}`;
  }

  serve(path: string, content: string | Uint8Array, headers: Record<string, string> = {}): string {
    return this.on(path, (_request, response) => {
      response.writeHead(200, { "content-length": Buffer.byteLength(content), ...headers });
      response.end(content);
    });
  }

  redirect(path: string, location: string): string {
    return this.on(path, (_request, response) => response.writeHead(302, { location }).end());
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

export class LocalizationNode {
  readonly directory = mkdtempSync(join(tmpdir(), "selvedge-localization-"));
  readonly local = join(this.directory, "local");
  readonly lines: LogLine[] = [];
  readonly waits: number[] = [];
  nowMs = 1_700_000_000_000;
  readonly #services: ResourceLocalizationService[] = [];

  /** A service that may use http: and loopback, waits for nothing between attempts. */
  create(options: Partial<ResourceLocalizationServiceOptions> = {}): ResourceLocalizationService {
    const service = new ResourceLocalizationService({
      localDirectories: [this.local],
      log: (line) => this.lines.push(line),
      nowMs: () => this.nowMs,
      backoffMs: (failures) => {
        this.waits.push(failures);
        return 0;
      },
      ...options,
      limits: { freeDiskMbMin: 0, ...options.limits },
      allowances: { http: true, addresses: ["127.0.0.1"], ...options.allowances },
    });
    this.#services.push(service);
    return service;
  }

  async start(
    options: Partial<ResourceLocalizationServiceOptions> = {},
  ): Promise<ResourceLocalizationService> {
    const service = this.create(options);
    await service.recover([]);
    return service;
  }

  /** A directory of its own beside the local one. */
  makeDirectory(name: string): string {
    const path = join(this.directory, name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** All that lies below, as relative paths; half-made things too. */
  files(below = this.local): string[] {
    if (!existsSync(below)) return [];
    return readdirSync(below, { recursive: true, encoding: "utf8" })
      .filter((name) => !lstatSync(join(below, name)).isDirectory())
      .toSorted();
  }

  async close(): Promise<void> {
    await Promise.all(this.#services.map((service) => service.close()));
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export type Asked = Partial<LocalResource> & {
  readonly url: string;
  readonly container?: string;
  readonly user?: string;
  readonly applicationId?: string;
};

/** Localizes one resource, as the link `it`, APPLICATION unless told otherwise. */
export function localizeOne(
  service: ResourceLocalizationService,
  { container = "c1", user = "ann", applicationId = APPLICATION, ...resource }: Asked,
): Promise<Reply<LocalizedPaths>> {
  return service.localize({
    user,
    applicationId,
    containerId: container,
    resources: { it: { type: "FILE", visibility: "APPLICATION", ...resource } },
  });
}

/** The path of one resource that must come. */
export async function pathOf(service: ResourceLocalizationService, asked: Asked): Promise<string> {
  return unwrap(await localizeOne(service, asked))["it"] ?? "";
}

export async function contentOf(
  service: ResourceLocalizationService,
  asked: Asked,
): Promise<string> {
  return readFileSync(await pathOf(service, asked), "utf8");
}
