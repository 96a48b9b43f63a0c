/**
 * The agent's way out through an HTTP proxy: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in either case, as
 * for curl. `fetch` and the WebSocket are told separately, because Node's `ws` asks no global agent.
 */
import { type Agent, Agent as HttpAgent, setGlobalProxyFromEnv } from "node:http";
import { Agent as HttpsAgent } from "node:https";

type Environment = Readonly<Record<string, string | undefined>>;

/** Lets `fetch` and node:http of this process go through the environment's proxies, if it has any. */
export function useProxies(environment: Environment): void {
  if (hasProxy(environment)) setGlobalProxyFromEnv({ ...environment });
}

/**
 * For a WebSocket to `url` (http: or https:); undefined when the environment names no proxy. https:
 * goes through a CONNECT tunnel. A proxy that is asked for http: seldom lets a WebSocket pass.
 */
export function webSocketAgent(url: string, environment: Environment): Agent | undefined {
  if (!hasProxy(environment)) return undefined;
  const options = { proxyEnv: { ...environment } };
  return url.startsWith("https:") ? new HttpsAgent(options) : new HttpAgent(options);
}

function hasProxy(environment: Environment): boolean {
  return ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"].some(
    (name) => environment[name],
  );
}
