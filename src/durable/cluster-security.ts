/**
 * A cluster's keys, its claim and its join tokens (design §7), inside the ResourceManager's object.
 * One Ed25519 key signs every token and the audience tells the kinds apart: user, node, node-join,
 * container. The private key never leaves the object; tokens are signed and forgotten.
 *
 * Signing and hashing wait, and other calls run meanwhile. So every decision is one synchronous
 * statement that comes after the last wait, and a token signed for a decision that fell the other
 * way is thrown away unseen.
 */
import { calculateJwkThumbprint, importJWK, type JWTPayload, SignJWT } from "jose";
import { assert, fail, ok, type Reply } from "../shared/errors.ts";
import { type ContainerId, isNodeId, type NodeId } from "../shared/ids.ts";
import { DEFAULT_CLUSTER, isUserName } from "../shared/names.ts";
import {
  type ClusterSecurity,
  JOIN_TOKEN_USES_MAX,
  type Principal,
  TOKEN_LIFETIME_SECONDS,
  TOKEN_LIFETIME_SECONDS_MAX,
  tokenIssuer,
} from "../shared/protocol/application-client.ts";
import type { RegistryTokenClaims } from "../shared/protocol/registry-operations.ts";
import type { ContainerTokenClaims, VerificationKey } from "../shared/protocol/resource-tracker.ts";
import { SecurityStore } from "./store/security-store.ts";

/** Tries of a claim code in a row until the next are not looked at, and for how long. */
const CLAIM_ATTEMPTS_MAX = 10;
const CLAIM_PAUSE_MS = 60_000;
/** A shorter code could be guessed in spite of the pauses. */
const CLAIM_CODE_LENGTH_MIN = 8;

/** Crockford's base 32, which has no letters that are mistaken for digits: 20 of them, 100 bits. */
const CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE_LENGTH = 20;

/** Nodes have no way to renew their credential: it lasts as long as any token may. */
const NODE_CREDENTIAL_LIFETIME_SECONDS = TOKEN_LIFETIME_SECONDS_MAX;
/** Nor have containers; theirs ends with the container, which the ResourceManager is asked about. */
const REGISTRY_CREDENTIAL_LIFETIME_SECONDS = TOKEN_LIFETIME_SECONDS_MAX;

export type ClusterKeysOptions = {
  readonly cluster: string;
  /** SELVEDGE_CLAIM_CODE: set by the deployment's owner, so that no code needs to be read in a log. */
  readonly claimCode?: string | undefined;
  readonly nowMs: () => number;
};

/** What a ContainerToken is signed for. */
export type ContainerGrant = Pick<
  ContainerTokenClaims,
  "containerId" | "nodeId" | "user" | "resource" | "version"
>;

type PrivateJwk = Omit<VerificationKey, "kid"> & { readonly d: string };
type SigningKey = { readonly kid: string; readonly key: CryptoKey };

export class ClusterKeys implements ClusterSecurity {
  readonly #store: SecurityStore;
  readonly #options: ClusterKeysOptions;
  #signing: SigningKey | null = null;
  #attempts = 0;
  #pausedUntilMs = 0;

  constructor(sql: SqlStorage, options: ClusterKeysOptions) {
    this.#store = new SecurityStore(sql);
    this.#options = options;
  }

  /** All public keys of the cluster; none before the first token was signed. */
  verificationKeys(): readonly VerificationKey[] {
    return this.#store.keys().map(({ kid, private_jwk }) => {
      const { kty, crv, x } = JSON.parse(private_jwk) as PrivateJwk;
      return { kid, kty, crv, x };
    });
  }

  async getVerificationKeys(): Promise<readonly VerificationKey[]> {
    return this.verificationKeys();
  }

  /** Signs with a new key from now on; what the older ones have signed stays valid. */
  async rotateKey(): Promise<{ readonly kid: string }> {
    const { kid, jwk } = await generateKey();
    this.#insertKey(kid, jwk);
    return { kid };
  }

  /** A cluster that belongs to nobody makes its claim code when it is first asked. */
  async isClaimed(): Promise<boolean> {
    const row = this.#store.findClaim();
    if (row !== undefined && row.claimed_by !== null) return true;
    if (row === undefined && !this.#options.claimCode) await this.#makeClaimCode();
    return false;
  }

  /**
   * Makes `user` the administrator when `code` is right; the first one wins. Afterwards only a new
   * SELVEDGE_CLAIM_CODE opens the cluster again, once: whoever can set it owns the deployment.
   */
  async claim(code: string, user: string): Promise<Reply<{ readonly token: string }>> {
    if (!isUserName(user)) return fail("INVALID_ARGUMENT", "the user's name is not valid");
    const nowMs = this.#options.nowMs();
    if (nowMs < this.#pausedUntilMs) {
      return fail("RESOURCE_EXHAUSTED", "too many wrong claim codes; wait a minute");
    }
    this.#countAttempt(nowMs);
    const { claimCode } = this.#options;
    if (claimCode && claimCode.length < CLAIM_CODE_LENGTH_MIN) {
      return fail("FAILED_PRECONDITION", "SELVEDGE_CLAIM_CODE is too short to be safe", {
        hint: `set one of at least ${CLAIM_CODE_LENGTH_MIN} characters`,
      });
    }
    if (!claimCode && this.#store.findClaim() === undefined) await this.#makeClaimCode();
    const before = this.#store.findClaim();
    const expected = claimCode ? await sha256(claimCode) : before?.code_hash;
    const given = await sha256(claimCode ? code : canonicalCode(code));
    const isUsed = before !== undefined && before.claimed_by !== null;
    if (isUsed && (expected === undefined || isEqual(expected, before.code_hash))) {
      return this.#refuseSecondClaim();
    }
    if (expected === undefined || !isEqual(given, expected)) return this.#refuseWrongCode();
    const { token } = await this.#signUser({ user, role: "admin" }, TOKEN_LIFETIME_SECONDS);
    if (!this.#store.claim(expected, user, nowMs)) return this.#refuseSecondClaim();
    this.#attempts = 0;
    this.#pausedUntilMs = 0;
    return ok({ token });
  }

  async createToken(
    principal: Principal,
    lifetimeSeconds: number,
  ): Promise<Reply<{ readonly token: string; readonly expiresMs: number }>> {
    if (!isUserName(principal.user)) {
      return fail("INVALID_ARGUMENT", "the user's name is not valid");
    }
    const refusal = refuseLifetime(lifetimeSeconds);
    return refusal ?? ok(await this.#signUser(principal, lifetimeSeconds));
  }

  async createJoinToken(
    uses: number,
    lifetimeSeconds: number,
  ): Promise<Reply<{ readonly token: string; readonly expiresMs: number }>> {
    if (!Number.isInteger(uses) || uses < 1 || uses > JOIN_TOKEN_USES_MAX) {
      return fail("INVALID_ARGUMENT", `a join token has 1 to ${JOIN_TOKEN_USES_MAX} uses`);
    }
    const refusal = refuseLifetime(lifetimeSeconds);
    if (refusal) return refusal;
    const jti = crypto.randomUUID();
    const signed = await this.#sign({ aud: "node-join", jti }, lifetimeSeconds);
    this.#store.deleteExpiredJoinTokens(this.#options.nowMs());
    this.#store.insertJoinToken(jti, uses, signed.expiresMs);
    return ok(signed);
  }

  async joinNode(
    jti: string,
    nodeId: NodeId,
  ): Promise<Reply<{ readonly credential: string; readonly expiresMs: number }>> {
    if (!isNodeId(nodeId)) return fail("INVALID_ARGUMENT", "the node's id is not host:port");
    const claims = { aud: "node", sub: nodeId, jti: crypto.randomUUID() };
    const { token, expiresMs } = await this.#sign(claims, NODE_CREDENTIAL_LIFETIME_SECONDS);
    const isUsed = this.#store.useJoinToken(jti, this.#options.nowMs());
    if (isUsed) return ok({ credential: token, expiresMs });
    return fail("UNAUTHENTICATED", "the join token is used up or has expired", {
      hint: "an administrator makes a new one with: selvedge node token",
    });
  }

  /** One ContainerToken for each grant, in order. */
  async signContainerTokens(
    containers: readonly ContainerGrant[],
    lifetimeSeconds: number,
  ): Promise<string[]> {
    const signing = await this.#signingKey();
    return Promise.all(
      containers.map(async ({ containerId, nodeId, user, resource, version }) => {
        const claims = { aud: "container", containerId, nodeId, user, resource, version };
        return (await this.#signWith(signing, claims, lifetimeSeconds)).token;
      }),
    );
  }

  /** A container's registry credential, for writes below `path`. */
  async signRegistryToken(containerId: ContainerId, path: string): Promise<string> {
    const claims: RegistryTokenClaims = { aud: "registry", sub: containerId, path };
    return (await this.#sign(claims, REGISTRY_CREDENTIAL_LIFETIME_SECONDS)).token;
  }

  #signUser({ user, role, groups = [] }: Principal, lifetimeSeconds: number) {
    const claims = { aud: "user", sub: user, role, jti: crypto.randomUUID() };
    return this.#sign(groups.length > 0 ? { ...claims, groups } : claims, lifetimeSeconds);
  }

  async #sign(claims: JWTPayload, lifetimeSeconds: number) {
    return this.#signWith(await this.#signingKey(), claims, lifetimeSeconds);
  }

  async #signWith({ kid, key }: SigningKey, claims: JWTPayload, lifetimeSeconds: number) {
    const issuedSeconds = Math.floor(this.#options.nowMs() / 1_000);
    const expirySeconds = issuedSeconds + lifetimeSeconds;
    const token = await new SignJWT(claims)
      .setProtectedHeader({ alg: "EdDSA", kid })
      .setIssuer(tokenIssuer(this.#options.cluster))
      .setIssuedAt(issuedSeconds)
      .setExpirationTime(expirySeconds)
      .sign(key);
    return { token, expiresMs: expirySeconds * 1_000 };
  }

  /** The newest key. Callers that find none at the same time all make one; the first is kept. */
  async #signingKey(): Promise<SigningKey> {
    if (this.#signing) return this.#signing;
    if (this.#store.newestKey() === undefined) {
      const { kid, jwk } = await generateKey();
      if (this.#store.newestKey() === undefined) this.#insertKey(kid, jwk);
    }
    const newest = this.#store.newestKey();
    assert(newest, "a key was just stored");
    const key = await importJWK(JSON.parse(newest.private_jwk), "EdDSA");
    assert(key instanceof CryptoKey, "an Ed25519 key is imported as a CryptoKey");
    const signing = { kid: newest.kid, key };
    if (this.#store.newestKey()?.kid === newest.kid) this.#signing = signing;
    return signing;
  }

  #insertKey(kid: string, jwk: PrivateJwk): void {
    const private_jwk = JSON.stringify(jwk);
    this.#store.insertKey({ kid, private_jwk }, this.#options.nowMs());
    this.#signing = null;
  }

  /** The one place where the code can be read is the log line written here. */
  async #makeClaimCode(): Promise<void> {
    const code = randomCode();
    const hash = await sha256(code);
    if (this.#store.findClaim() !== undefined) return;
    this.#store.insertClaimCode(hash);
    const { cluster } = this.#options;
    const which = cluster === DEFAULT_CLUSTER ? "" : ` --cluster ${cluster}`;
    const shown = code.replaceAll(/(.{4})(?=.)/g, "$1-");
    console.warn(
      `Cluster ${cluster} belongs to nobody yet. To make it yours (the code is shown only here):\n` +
        `  selvedge login --url URL-OF-THIS-DEPLOYMENT${which} --claim ${shown}`,
    );
  }

  /** Counted before the code is looked at, or many tries at once would all come before the count. */
  #countAttempt(nowMs: number): void {
    this.#attempts++;
    if (this.#attempts < CLAIM_ATTEMPTS_MAX) return;
    this.#attempts = 0;
    this.#pausedUntilMs = nowMs + CLAIM_PAUSE_MS;
  }

  #refuseWrongCode(): Reply<never> {
    return fail("PERMISSION_DENIED", "the claim code is wrong", {
      hint: "the missing right: the code in the deployment's own log, or SELVEDGE_CLAIM_CODE if set",
    });
  }

  #refuseSecondClaim(): Reply<never> {
    return fail("ALREADY_EXISTS", `cluster ${this.#options.cluster} belongs to somebody already`, {
      hint:
        "its administrator makes tokens with: selvedge token create; the deployment's owner can " +
        "take it over by setting a new SELVEDGE_CLAIM_CODE",
    });
  }
}

async function generateKey(): Promise<{ readonly kid: string; readonly jwk: PrivateJwk }> {
  const pair = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  assert("privateKey" in pair, "Ed25519 keys come in pairs");
  const exported = await crypto.subtle.exportKey("jwk", pair.privateKey);
  assert("x" in exported && exported.x && exported.d, "an exported Ed25519 key has both halves");
  const jwk: PrivateJwk = { kty: "OKP", crv: "Ed25519", x: exported.x, d: exported.d };
  return { kid: await calculateJwkThumbprint({ kty: jwk.kty, crv: jwk.crv, x: jwk.x }), jwk };
}

function refuseLifetime(lifetimeSeconds: number): Reply<never> | null {
  const isValid =
    Number.isInteger(lifetimeSeconds) &&
    lifetimeSeconds >= 1 &&
    lifetimeSeconds <= TOKEN_LIFETIME_SECONDS_MAX;
  if (isValid) return null;
  return fail("INVALID_ARGUMENT", `a token lives 1 to ${TOKEN_LIFETIME_SECONDS_MAX} seconds`);
}

/** 32 divides 256, so that every letter is equally likely. */
function randomCode(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(CODE_LENGTH));
  return Array.from(bytes, (byte) => CODE_ALPHABET[byte % CODE_ALPHABET.length]).join("");
}

/** As people retype it: in any case, with or without hyphens, O for 0, I and L for 1. */
function canonicalCode(code: string): string {
  return code.toUpperCase().replaceAll(/[\s-]/g, "").replaceAll("O", "0").replaceAll(/[IL]/g, "1");
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** In a time that does not depend on where two hashes differ. */
function isEqual(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let at = 0; at < a.length; at++) difference |= a.charCodeAt(at) ^ b.charCodeAt(at);
  return difference === 0;
}
