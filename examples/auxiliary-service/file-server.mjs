/**
 * An auxiliary service like the shuffle of MapReduce: hands the files that containers leave in
 * their application's directory to other containers of the same application, on any node, also
 * when the container that wrote them has ended.
 *
 *   GET /{applicationId}/{file}      Authorization: Bearer {the application's token}
 *
 * The token is the service data of the launch context. Containers own the directory, so nothing in
 * it is trusted: only plain files of one name, opened without following links, are handed out.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { constants } from "node:fs";
import { open, readlink } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";

const PATH = /^\/(application_\d+_\d+)\/([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$/;
const TOKEN_BYTES_MIN = 16;

/** @type {import("../../src/agent/auxiliary-service.ts").CreateAuxiliaryService} */
export default async function create({ configuration }) {
  /** @type {Map<string, { directory: string, token: Buffer }>} */
  const applications = new Map();
  const server = createServer((request, response) => {
    answer(applications, request, response).catch(() => response.destroy());
  });
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    const { address: host = "127.0.0.1", port = "0" } = configuration;
    server.listen({ host, port: Number(port) }, resolve);
  });

  return {
    version: "1",
    metaData: () => Buffer.from(String(server.address().port)).toString("base64"),
    initializeApplication({ applicationId, serviceData, directory }) {
      const token = Buffer.from(serviceData, "base64");
      if (token.length < TOKEN_BYTES_MIN) {
        throw new Error(`the service data is no token of at least ${TOKEN_BYTES_MIN} bytes`);
      }
      applications.set(applicationId, { directory, token: digest(serviceData) });
    },
    stopApplication({ applicationId }) {
      applications.delete(applicationId);
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answer(applications, request, response) {
  const [, applicationId = "", name = ""] = PATH.exec(request.url) ?? [];
  const application = applications.get(applicationId);
  const given = /^Bearer (\S+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
  // An application that is not here and a wrong token look the same.
  if (!application || !timingSafeEqual(digest(given), application.token)) {
    return response.writeHead(401).end();
  }
  if (request.method !== "GET") return response.writeHead(405, { Allow: "GET" }).end();
  const file = await openPlain(application.directory, name);
  if (!file) return response.writeHead(404).end();
  const { size } = await file.stat();
  response.writeHead(200, { "Content-Type": "application/octet-stream", "Content-Length": size });
  // No more than was promised, however fast it grows.
  const end = Math.max(0, size - 1);
  if (size === 0) await file.close();
  await (size === 0 ? response.end() : pipeline(file.createReadStream({ end }), response));
}

/** Undefined for what is no plain file of this very directory. */
async function openPlain(directory, name) {
  const path = join(directory, name);
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(() => undefined);
  if (!file) return undefined;
  const facts = await file.stat();
  // The directory itself could have become a link, and the file a second name of another.
  const isHere = (await readlink(`/proc/self/fd/${file.fd}`)) === path;
  if (isHere && facts.isFile() && facts.nlink === 1) return file;
  await file.close();
  return undefined;
}

/** Of equal length, as comparing in constant time needs it. */
function digest(text) {
  return createHash("sha256").update(text).digest();
}
