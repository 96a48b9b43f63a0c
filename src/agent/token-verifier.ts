/**
 * Checks ContainerTokens (seed 004): nothing is launched that the ResourceManager did not grant to
 * this very node. The node holds public keys only, so that a stolen node can forge nothing.
 */
import { errors, importJWK, jwtVerify } from "jose";
import { fail, ok, type Reply } from "../shared/errors.ts";
import type { ContainerId, NodeId } from "../shared/ids.ts";
import {
  type ContainerTokenClaims,
  containerTokenClaimsSchema,
  type VerificationKey,
} from "../shared/protocol/resource-tracker.ts";
import { messageOf } from "./log.ts";

/** What the order says; the token must say the same. */
export type TokenSubject = { readonly containerId: ContainerId; readonly user: string };

type PublicKey = Awaited<ReturnType<typeof importJWK>>;

export class TokenVerifier {
  readonly #nodeId: NodeId;
  readonly #nowMs: () => number;
  #keys = new Map<string, VerificationKey>();
  readonly #imported = new Map<string, Promise<PublicKey>>();

  constructor(nodeId: NodeId, nowMs: () => number) {
    this.#nodeId = nodeId;
    this.#nowMs = nowMs;
  }

  /** Replaces all keys; a key that the tracker no longer names is no longer accepted. */
  setKeys(keys: readonly VerificationKey[]): void {
    this.#keys = new Map(keys.map((key) => [key.kid, key]));
    this.#imported.clear();
  }

  /** UNAUTHENTICATED: forged or expired. PERMISSION_DENIED: granted to somebody else. */
  async verify(token: string, subject: TokenSubject): Promise<Reply<ContainerTokenClaims>> {
    const { containerId, user } = subject;
    const refuse = (why: string) =>
      fail("UNAUTHENTICATED", `the container token of ${containerId} is refused: ${why}`);
    let payload: unknown;
    try {
      const verified = await jwtVerify(token, (header) => this.#keyOf(header.kid), {
        algorithms: ["EdDSA", "Ed25519"],
        audience: "container",
        requiredClaims: ["exp"],
        currentDate: new Date(this.#nowMs()),
      });
      payload = verified.payload;
    } catch (error) {
      return refuse(error instanceof errors.JWTExpired ? "it has expired" : messageOf(error));
    }
    const claims = containerTokenClaimsSchema.safeParse(payload);
    if (!claims.success) return refuse("it does not have the claims of a container token");
    const wrong = this.#mismatch(claims.data, containerId, user);
    if (wrong) return fail("PERMISSION_DENIED", `the token of ${containerId} is refused: ${wrong}`);
    return ok(claims.data);
  }

  #mismatch(claims: ContainerTokenClaims, containerId: ContainerId, user: string) {
    if (claims.nodeId !== this.#nodeId) {
      return `it is for node ${claims.nodeId}, and this is ${this.#nodeId}`;
    }
    if (claims.containerId !== containerId) return `it is for container ${claims.containerId}`;
    if (claims.user !== user) return `it is for user ${claims.user}, and the launch says ${user}`;
    return undefined;
  }

  #keyOf(kid: string | undefined): Promise<PublicKey> {
    const key = kid === undefined ? undefined : this.#keys.get(kid);
    if (!key) throw new Error(`it is signed with key ${kid ?? "(unnamed)"}, unknown to this node`);
    let imported = this.#imported.get(key.kid);
    if (!imported) {
      imported = importJWK({ ...key, alg: "EdDSA" }, "EdDSA");
      this.#imported.set(key.kid, imported);
    }
    return imported;
  }
}
