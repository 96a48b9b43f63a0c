/**
 * YARN's identifiers in their text forms (facts/yarn-rm-nm-scheduler.md §2.6). Everywhere in the
 * system an id is this text; the numbers inside are read only here.
 */

/** `application_{clusterTimestamp}_{number, at least 4 digits}` */
export type ApplicationId = string;
/** `appattempt_{clusterTimestamp}_{number}_{attempt, 6 digits}` */
export type ApplicationAttemptId = string;
/** `container_e{epoch}_{clusterTimestamp}_{number}_{attempt, 2 digits}_{sequence, 6 digits}` */
export type ContainerId = string;
/** `host:port`; the port only tells several NodeManagers of one host apart. */
export type NodeId = string;

const pad = (n: number, width: number) => String(n).padStart(width, "0");

export function formatApplicationId(clusterTimestamp: number, number: number): ApplicationId {
  return `application_${clusterTimestamp}_${pad(number, 4)}`;
}

export function formatAttemptId(
  applicationId: ApplicationId,
  attempt: number,
): ApplicationAttemptId {
  return `${applicationId.replace("application", "appattempt")}_${pad(attempt, 6)}`;
}

export function formatContainerId(
  attemptId: ApplicationAttemptId,
  epoch: number,
  sequence: number,
): ContainerId {
  const [, timestamp, number, attempt] = attemptId.split("_");
  return `container_e${pad(epoch, 2)}_${timestamp}_${number}_${pad(Number(attempt), 2)}_${pad(sequence, 6)}`;
}

export function applicationOfAttempt(attemptId: ApplicationAttemptId): ApplicationId {
  return attemptId.slice(0, attemptId.lastIndexOf("_")).replace("appattempt", "application");
}

const CONTAINER_ID = /^container_(?:e(\d+)_)?(\d+)_(\d{4,})_(\d{2,})_(\d{6,})$/;

export function isContainerId(text: string): boolean {
  return CONTAINER_ID.test(text);
}

export function isApplicationId(text: string): boolean {
  return /^application_\d{1,19}_\d{4,19}$/.test(text);
}

export function isAttemptId(text: string): boolean {
  return /^appattempt_\d{1,19}_\d{4,19}_\d{6,19}$/.test(text);
}

export function applicationOfContainer(containerId: ContainerId): ApplicationId {
  const match = CONTAINER_ID.exec(containerId);
  if (!match) throw new Error(`not a container id: ${containerId}`);
  return `application_${match[2]}_${match[3]}`;
}

export function attemptOfContainer(containerId: ContainerId): ApplicationAttemptId {
  const attempt = CONTAINER_ID.exec(containerId)?.[4];
  return formatAttemptId(applicationOfContainer(containerId), Number(attempt));
}

/** The registry's form of a container id: `ctr-e01-…` (facts/registry-dns.md §1.4, encodeYarnID). */
export function encodeYarnId(id: string): string {
  return id.replace("container", "ctr").replaceAll("_", "-");
}

/** `host:port` with an RFC 1123 host name or an IPv4 address, 1–253 characters, and a port 1–65535. */
const NODE_ID = /^(?=.{1,260}$)[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?:([1-9]\d{0,4})$/;

export function isNodeId(text: string): boolean {
  const match = NODE_ID.exec(text);
  return match !== null && Number(match[1]) <= 65_535;
}
