import type { IncomingMessage } from "node:http";
import { BerthError } from "../errors.ts";

/**
 * The body as text, at most `bodyBytes` long. Rejects with `body_too_large`, or with `invalid_request` when the
 * client stops in the middle.
 */
export function readBody(request: IncomingMessage, bodyBytes: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let first: Buffer | undefined;
    let rest: Buffer[] | undefined;
    let length = 0;
    const onData = (chunk: Buffer): void => {
      length += chunk.length;
      if (length > bodyBytes) {
        // The rest is read and thrown away, so that the client gets to see the answer.
        request.off("data", onData).resume();
        reject(new BerthError("body_too_large", `the limit is ${bodyBytes} bytes`));
      } else if (!first) first = chunk;
      else (rest ??= [first]).push(chunk);
    };
    request.on("data", onData);
    request.on("end", () => resolve(rest ? Buffer.concat(rest, length).toString() : (first?.toString() ?? "")));
    request.on("error", () => reject(new BerthError("invalid_request", "the body ended too early")));
  });
}
