/** What people write for ports. The verbs themselves are tried in test/e2e. */
import { describe, expect, it } from "vitest";
import { parsePortPair } from "../../src/cli/streams/forward.ts";

describe("ports to be forwarded", () => {
  it.each([
    ["8080:80", { local: 8_080, remote: 80 }],
    ["8080", { local: 8_080, remote: 8_080 }],
    [":80", { local: 0, remote: 80 }],
    ["0:80", { local: 0, remote: 80 }],
    ["65535:1", { local: 65_535, remote: 1 }],
  ])("[NM210] are understood: %s", (text, pair) => {
    expect(parsePortPair(text)).toEqual(pair);
  });

  it.each(["", ":", "80:", "80:0", "65536", "1:65536", "http", "1:2:3", "-1", "127.0.0.1:80"])(
    "[NM210] are refused: %s",
    (text) => {
      expect(parsePortPair(text)).toBeUndefined();
    },
  );
});
