/**
 * The steps from nothing to a cluster that does its job: Worker, administrator, nodes, example.
 * Each step first looks at what is there, so that starting again continues where things were left.
 */

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { parse } from "yaml";
import { type ClusterClient, clusterClient } from "../../src/client/cluster.ts";
import { createHttp, TextBody } from "../../src/client/http.ts";
import { ProblemError } from "../../src/client/problem-error.ts";
import { securityClient } from "../../src/client/security.ts";
import { type ServicesClient, servicesClient } from "../../src/client/services.ts";
import type { ServiceView } from "../../src/shared/service.ts";
import {
  freePort,
  hasCredential,
  type RunningAgent,
  type RunningWorker,
  startAgent,
  startWorker,
} from "../local-cluster.ts";
import { adminTokenFile, readAdminToken, writeAdminToken } from "./home.ts";
import { StartError, type StartOptions } from "./options.ts";
import { clusterSummary, containerUrls, serviceSummary } from "./summary.ts";

/** What has been started so far; filled step by step so that a failure half-way can end it. */
export type Running = { worker: RunningWorker | undefined; readonly agents: RunningAgent[] };
type Say = (line: string) => void;

const ADMINISTRATOR = "admin";
const YARNFILE = new URL("../../examples/hello-world/Yarnfile.yaml", import.meta.url);
const POLL_MS = 100;
const NODES_RUNNING_MAX_MS = 60_000;
const SERVICE_STABLE_MAX_MS = 120_000;
const JOIN_TOKEN_LIFETIME_SECONDS = 600;
/** Of a reason in a line of progress; `selvedge service status` shows all of it. */
const REASON_LENGTH_MAX = 160;
const CONTAINER_ANSWER_MAX_MS = 2_000;

/** Answers what to tell the person. Rejects with a StartError or ProblemError, or when aborted. */
export async function bringUp(
  options: StartOptions,
  running: Running,
  say: Say,
  stop: AbortSignal,
): Promise<string> {
  const claimCode = randomBytes(24).toString("base64url");
  const worker = await bringUpWorker(options, claimCode);
  running.worker = worker;
  stop.throwIfAborted();
  say(`The Worker answers at ${worker.url}`);

  const token = await administratorToken(options, worker.url, claimCode);
  const http = createHttp({ url: worker.url, token, signal: stop });
  await startAgents(options, running, securityClient(http), worker.url);
  const done = async () => {
    await nodesRunning(running, clusterClient(http), worker.url, say, stop);
    if (!options.example) return clusterSummary(options, worker.url);
    const services = servicesClient(http);
    const name = await deployExample(services, say);
    const service = await serviceStable(services, name, say, stop);
    return serviceSummary(options, worker.url, service);
  };
  return Promise.race([done(), agentEnds(running.agents)]);
}

async function bringUpWorker(options: StartOptions, claimCode: string): Promise<RunningWorker> {
  const { host, port, home } = options;
  if ((await freePort(host, port)) === undefined) {
    const other = port < 65_000 ? port + 2 : 8_088;
    throw new StartError(
      `Port ${port} is taken by another program: stop that one, or choose another port with ` +
        `PORT=${other} npm start`,
    );
  }
  try {
    return await startWorker({ host, port, home, claimCode, development: true });
  } catch (error) {
    throw new StartError(error instanceof Error ? error.message : String(error));
  }
}

async function administratorToken(
  options: StartOptions,
  url: string,
  claimCode: string,
): Promise<string> {
  const file = adminTokenFile(options.home);
  const known = readAdminToken(options.home);
  try {
    if (known !== undefined) {
      await securityClient(createHttp({ url, token: known })).whoami();
      return known;
    }
    const { token } = await securityClient(createHttp({ url })).claim(claimCode, ADMINISTRATOR);
    writeAdminToken(options.home, token);
    return token;
  } catch (error) {
    if (!(error instanceof ProblemError) || error.origin !== "answer") throw error;
    const what = known === undefined ? "is claimed, but its token is not in" : "does not accept";
    throw new StartError(
      `The cluster ${what} ${file} (${error.message}): begin a new cluster with ` +
        `rm -r ${options.home}, which forgets everything in it.`,
    );
  }
}

async function startAgents(
  options: StartOptions,
  running: Running,
  security: ReturnType<typeof securityClient>,
  url: string,
): Promise<void> {
  const numbers = Array.from({ length: options.nodes }, (_, index) => index + 1);
  const strangers = numbers.filter((number) => !hasCredential(options.home, number, url));
  const joinToken =
    strangers.length === 0
      ? undefined
      : (await security.createJoinToken(strangers.length, JOIN_TOKEN_LIFETIME_SECONDS)).token;
  for (const number of numbers) {
    running.agents.push(
      startAgent({
        url,
        home: options.home,
        number,
        joinToken: strangers.includes(number) ? joinToken : undefined,
        ...options.capability,
      }),
    );
  }
}

/** Rejects as soon as one of them ends, with the end of its log: nothing is worth waiting for then. */
async function agentEnds(agents: readonly RunningAgent[]): Promise<never> {
  const { agent, how } = await Promise.race(
    agents.map(async (each) => ({ agent: each, how: await each.exited })),
  );
  throw new StartError(
    `NodeManager ${agent.nodeId} has ended (${how}):\n${tail(agent.logFile)}\n` +
      `Its log: ${agent.logFile}`,
  );
}

async function nodesRunning(
  running: Running,
  cluster: ClusterClient,
  url: string,
  say: Say,
  stop: AbortSignal,
): Promise<void> {
  const { agents } = running;
  const deadline = Date.now() + NODES_RUNNING_MAX_MS;
  for (;;) {
    const nodes = await cluster.nodes();
    const waiting = agents.filter(
      (agent) => nodes.find(({ id }) => id === agent.nodeId)?.state !== "RUNNING",
    );
    say(`${agents.length - waiting.length} of ${agents.length} nodes RUNNING`);
    const takesWork = async () => (await fetch(`${url}/healthz`, { signal: stop })).ok;
    if (waiting.length === 0 && (await takesWork())) return;
    if (Date.now() >= deadline) {
      const [agent] = waiting;
      if (agent === undefined) throw new StartError(`${url}/healthz says: not ready for work.`);
      const node = nodes.find(({ id }) => id === agent.nodeId);
      throw new StartError(
        `NodeManager ${agent.nodeId} is ${node?.state ?? "not registered"} after ` +
          `${NODES_RUNNING_MAX_MS / 1_000} s:\n${tail(agent.logFile)}\nIts log: ${agent.logFile}`,
      );
    }
    await delay(POLL_MS, undefined, { signal: stop });
  }
}

async function deployExample(services: ServicesClient, say: Say): Promise<string> {
  const yarnfile = readFileSync(YARNFILE, "utf8");
  const { name } = parse(yarnfile) as { name: string };
  try {
    const { state } = await services.get(name);
    say(`The service ${name} is there already (${state})`);
  } catch (error) {
    if (!(error instanceof ProblemError) || error.failure.code !== "NOT_FOUND") throw error;
    await services.create(new TextBody("application/yaml", yarnfile));
    say(`The service ${name} is accepted`);
  }
  return name;
}

/**
 * Waits until the service is STABLE and each of its containers answers on its own port: after a
 * restart the state is for a moment that of the containers which went with the last cluster. A
 * service that its owner has stopped stays stopped.
 */
async function serviceStable(
  services: ServicesClient,
  name: string,
  say: Say,
  stop: AbortSignal,
): Promise<ServiceView> {
  const deadline = Date.now() + SERVICE_STABLE_MAX_MS;
  for (;;) {
    const service = await services.get(name);
    if (["STOPPED", "SUCCEEDED"].includes(service.state)) return service;
    const line = describe(service);
    say(line);
    if (service.state === "STABLE" && (await allAnswer(service, stop))) return service;
    if (service.state === "FAILED" || Date.now() >= deadline) {
      throw new StartError(`${line}\nWhat happened: npx selvedge service events ${name}`);
    }
    await delay(POLL_MS, undefined, { signal: stop });
  }
}

function describe(service: ServiceView): string {
  const wanted = service.components.reduce((sum, each) => sum + each.number_of_containers, 0);
  const ready = service.components
    .flatMap((component) => component.containers)
    .filter((container) => container.state === "READY").length;
  const counts = `${service.state}, ${ready} of ${wanted} containers ready`;
  const why = service.diagnostics;
  const shown = why.length > REASON_LENGTH_MAX ? `${why.slice(0, REASON_LENGTH_MAX)}…` : why;
  return `${service.name}: ${counts}${shown === "" ? "" : ` (${shown})`}`;
}

async function allAnswer(service: ServiceView, stop: AbortSignal): Promise<boolean> {
  const answers = await Promise.all(
    containerUrls(service).map(async ({ url }) => {
      const signal = AbortSignal.any([stop, AbortSignal.timeout(CONTAINER_ANSWER_MAX_MS)]);
      return fetch(url, { signal }).then(
        (response) => response.ok,
        () => false,
      );
    }),
  );
  stop.throwIfAborted();
  return answers.every(Boolean);
}

function tail(file: string): string {
  return readFileSync(file, "utf8").trimEnd().split("\n").slice(-10).join("\n");
}
