/** The times that stand at the beginning of log lines, in the forms that programs write. */
import { describe, expect, it } from "vitest";
import { timeOfLine } from "../../src/cli/line-time.ts";

const NOW = Date.parse("2026-11-21T16:00:00Z");
const at = (line: string) => {
  const found = timeOfLine(line, NOW);
  return found && [new Date(found.timeMs).toISOString(), found.isZoned];
};

describe("a line's time", () => {
  it.each([
    ["2026-11-21T15:41:49.123Z started", "2026-11-21T15:41:49.123Z", true],
    ["2026-11-21T15:41:49+0100 started", "2026-11-21T14:41:49.000Z", true],
    ["2026-11-21T15:41:49.123456789-05:00 x", "2026-11-21T20:41:49.123Z", true],
    ["2026-11-21 15:41:49,123 INFO [main] Server: up", "2026-11-21T15:41:49.123Z", false],
    ["2026/11/21 15:41:49 listening", "2026-11-21T15:41:49.000Z", false],
    ["[2026-11-21 15:41:49] up", "2026-11-21T15:41:49.000Z", false],
    ["INFO  2026-11-21 15:41:49,123 Server: up", "2026-11-21T15:41:49.123Z", false],
    ["[WARN] 2026-11-21T15:41:49Z up", "2026-11-21T15:41:49.000Z", true],
    ["\u001b[32m2026-11-21T15:41:49Z\u001b[0m up", "2026-11-21T15:41:49.000Z", true],
    ["Nov 21 15:41:49 host sshd[1]: up", "2026-11-21T15:41:49.000Z", false],
    ["Dec  3 01:02:03 host sshd[1]: last year's", "2025-12-03T01:02:03.000Z", false],
    [
      '10.0.0.1 - - [21/Nov/2026:15:41:49 +0200] "GET / HTTP/1.1" 200',
      "2026-11-21T13:41:49.000Z",
      true,
    ],
    ["1795275709 up", "2026-11-21T15:41:49.000Z", true],
    ["1795275709.5 up", "2026-11-21T15:41:49.500Z", true],
    ["1795275709500 up", "2026-11-21T15:41:49.500Z", true],
    ['{"level":30,"time":1795275709500,"msg":"up"}', "2026-11-21T15:41:49.500Z", true],
    ['{"level":"info","ts":"2026-11-21T15:41:49Z"}', "2026-11-21T15:41:49.000Z", true],
    ["time=2026-11-21T15:41:49Z level=info", "2026-11-21T15:41:49.000Z", true],
  ])("[NM184] is found in %j", (line, iso, isZoned) => {
    expect(at(line)).toEqual([iso, isZoned]);
  });

  it.each([
    "",
    "started at 2026-11-21T15:41:49Z",
    "    at Object.<anonymous> (/srv/main.js:10:3)",
    "12345 requests",
    "179527570950012 bytes",
    "2026-13-41 99:99:99 nonsense",
    "Foo 21 15:41:49 host",
  ])("[NM184] is not seen in %j", (line) => {
    expect(at(line)).toBe(undefined);
  });
});
