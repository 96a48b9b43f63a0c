/**
 * Digests of accessors (seed 000 "Security": `digest:` ACLs): how a password stands in an ACL, and
 * how one that is shown is compared with it. Hadoop's are unsalted SHA-1; these are PBKDF2-HMAC-
 * SHA-256 with a salt of their own.
 *
 * One object serves a cluster's whole registry, so a check must be cheap: these iterations take
 * about 5 ms of one core. Passwords of accessors are made by programs, at least eight characters
 * long, and throttled callers try few of them.
 */
import { base64url } from "jose";

const KIND = "pbkdf2-sha256";
const ITERATIONS = 25_000;
const SALT_BYTES = 16;
const HASH_BITS = 256;

/** `{id}:pbkdf2-sha256$25000$salt$hash`, with a new salt each time. */
export async function makeDigest(id: string, password: string): Promise<string> {
  const salt = crypto.getRandomValues(new Uint8Array(SALT_BYTES));
  const hash = await derive(password, salt, ITERATIONS);
  return `${id}:${KIND}$${ITERATIONS}$${base64url.encode(salt)}$${base64url.encode(hash)}`;
}

/** Whether the password is the one of which the digest was made. */
export async function isDigestOf(digest: string, password: string): Promise<boolean> {
  const [kind, iterations, salt = "", hash = ""] = digest.slice(digest.indexOf(":") + 1).split("$");
  if (kind !== KIND) return false;
  const actual = await derive(password, base64url.decode(salt), Number(iterations));
  return isEqual(actual, base64url.decode(hash));
}

async function derive(password: string, salt: Uint8Array, iterations: number): Promise<Uint8Array> {
  const secret = new TextEncoder().encode(password);
  const key = await crypto.subtle.importKey("raw", secret, "PBKDF2", false, ["deriveBits"]);
  const parameters = { name: "PBKDF2", hash: "SHA-256", salt: salt.slice(), iterations };
  return new Uint8Array(await crypto.subtle.deriveBits(parameters, key, HASH_BITS));
}

/** Takes the same time wherever the two differ. */
function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  let difference = a.length ^ b.length;
  for (const [index, byte] of a.entries()) difference |= byte ^ (b[index] ?? 0);
  return difference === 0;
}
