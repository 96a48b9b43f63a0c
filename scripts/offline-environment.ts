/**
 * Settings that keep wrangler, Miniflare and vitest off the network and quiet: no telemetry, no
 * error reports, no update check, no download of a `cf` object. Local observability is off because
 * its trace store makes WebSockets several times slower and hangs under a burst of messages.
 * Every script and vitest.config.ts applies it before the tool is loaded.
 */
export const OFFLINE_ENVIRONMENT = {
  X_LOCAL_OBSERVABILITY: "false",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
} as const;
