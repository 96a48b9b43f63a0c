/** What the agent answers to a `node-query`. */
import type { Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import type { NodeAnswer } from "../shared/protocol/node-query.ts";

/** The value as JSON; RESOURCE_EXHAUSTED when that is too long to be sent. */
export function nodeAnswer(requestId: string, reply: Reply<unknown>): NodeAnswer {
  if (!reply.ok) {
    const { code, message, hint } = reply.error;
    const error = {
      code,
      message: cut(message),
      ...(hint === undefined ? {} : { hint: cut(hint) }),
    };
    return { type: "node-answer", requestId, error };
  }
  const body = JSON.stringify(reply.value ?? null);
  const lengthMax = LIMITS.nodeAnswerLengthMax;
  if (body.length <= lengthMax) return { type: "node-answer", requestId, body };
  const message = `the answer has ${body.length} characters, more than ${lengthMax}`;
  const error = { code: "RESOURCE_EXHAUSTED", message, hint: "ask for less" } as const;
  return { type: "node-answer", requestId, error };
}

function cut(text: string): string {
  return text.slice(0, LIMITS.diagnosticsLengthMax);
}
