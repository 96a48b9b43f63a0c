/** A connection to a port that a container itself listens on, and to nothing else. */
import { readlinkSync } from "node:fs";
import type { Socket } from "node:net";
import { fail, type Reply } from "../../shared/errors.ts";
import type { ContainersMonitor } from "../containers-monitor.ts";
import type { ContainerInterior } from "./container-interior.ts";
import { connectTo } from "./forward-session.ts";
import { isHeldBy, type ListeningSocket, listeningOn } from "./listening-sockets.ts";

/** FAILED_PRECONDITION when none of the container's processes listens there. */
export async function connectToPort(
  interior: ContainerInterior,
  port: number,
  monitor: ContainersMonitor,
): Promise<Reply<Socket>> {
  const { containerId, identity, workDirectory } = interior;
  const findOwn = async () => {
    const leader = { identity, workDirectory };
    const pids = (await monitor.processesOf(containerId, leader)).map(({ pid }) => pid);
    return ownSocket(listeningOn(identity.pid, port), pids);
  };
  const own = await findOwn();
  if (!own) return notItsOwn(containerId, port);
  const host = await hostOf(interior, own);
  if (host === undefined) return outOfReach(containerId);
  const reply = await connectTo(host, port);
  if (!reply.ok) return reply;
  // Whoever listens now, and did before, is who has accepted in between.
  if ((await findOwn())?.inode === own.inode) return reply;
  reply.value.destroy();
  return notItsOwn(containerId, port);
}

/** Undefined also where others listen as well, who would get some of the connections, or all. */
function ownSocket(
  sockets: readonly ListeningSocket[],
  pids: readonly number[],
): ListeningSocket | undefined {
  const isOwn = (socket: ListeningSocket) => isHeldBy(pids, socket);
  const own = sockets.find(isOwn);
  if (!own) return undefined;
  const answering = [own.address, reachedAt(own.address)];
  return sockets.filter(({ address }) => answering.includes(address)).every(isOwn)
    ? own
    : undefined;
}

/** Where this machine reaches what listens on the address: on all of them, also on its loopback. */
function reachedAt(address: string): string {
  if (address === "0.0.0.0") return "127.0.0.1";
  return address === "0:0:0:0:0:0:0:0" ? "0:0:0:0:0:0:0:1" : address;
}

function notItsOwn(containerId: string, port: number): Reply<never> {
  return fail("FAILED_PRECONDITION", `nothing of ${containerId} listens on TCP port ${port}`, {
    hint: "only ports of the container's own processes can be reached, not others of its machine",
  });
}

function outOfReach(containerId: string): Reply<never> {
  return fail("FAILED_PRECONDITION", `${containerId} has a network that its node does not reach`, {
    hint: "run a program in it instead: selvedge container exec",
  });
}

/** Undefined where the container's network is its own and has no way in: its loopback is not ours. */
async function hostOf(
  { containerId, identity, executor, run }: ContainerInterior,
  { address }: ListeningSocket,
): Promise<string | undefined> {
  if (networkOf(identity.pid) !== networkOf("self")) {
    return executor.addressOf?.({ containerId, run });
  }
  return reachedAt(address);
}

/** What cannot be looked at is another's. */
function networkOf(pid: number | "self"): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return undefined;
  }
}
