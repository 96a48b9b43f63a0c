/**
 * Claiming a cluster and making tokens (design §7) as a typed client. What it answers is secret:
 * callers show a token once, where it was asked for, and nowhere else.
 */
import type { Principal } from "../shared/protocol/application-client.ts";
import type { Http } from "./http.ts";

export type IssuedToken = {
  readonly token: string;
  /** Epoch ms. */
  readonly expiresMs: number;
};

export type WhoAmI = Principal & {
  readonly cluster: string;
  /** Epoch ms; null for a token that does not end. */
  readonly expiresMs: number | null;
};

export type SecurityClient = ReturnType<typeof securityClient>;

export function securityClient(http: Http) {
  const post = <T>(rest: string, body: unknown) =>
    http.request<T>("POST", `/ws/v1/security/${rest}`, body);
  return {
    /** The first claim with the right code wins; `user` (default `admin`) is the administrator. */
    claim: (code: string, user?: string) =>
      post<{ readonly token: string }>("claim", { code, user }),
    /** Without a lifetime the cluster chooses. */
    createToken: (principal: Principal, lifetimeSeconds?: number) =>
      post<IssuedToken>("tokens", { ...principal, lifetimeSeconds }),
    /** For nodes: `uses` machines may join with it. */
    createJoinToken: (uses?: number, lifetimeSeconds?: number) =>
      post<IssuedToken>("join-tokens", { uses, lifetimeSeconds }),
    whoami: () => http.request<WhoAmI>("GET", "/ws/v1/security/whoami"),
  };
}
