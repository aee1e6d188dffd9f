import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { BerthError } from "../errors.ts";

/**
 * The body as text, at most `bodyBytes` long. Rejects with `body_too_large`, with `parse_error` for what is no UTF-8,
 * or with `invalid_request` when the client stops in the middle.
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
        first = rest = undefined;
        reject(new BerthError("body_too_large", `the limit is ${bodyBytes} bytes`));
      } else if (!first) first = chunk;
      else (rest ??= [first]).push(chunk);
    };
    request.on("data", onData);
    request.on("end", () => {
      const bytes = rest ? Buffer.concat(rest, length) : first;
      if (!bytes) resolve("");
      else if (isUtf8(bytes)) resolve(bytes.toString());
      else reject(new BerthError("parse_error", "it is not UTF-8"));
    });
    request.on("error", () => reject(new BerthError("invalid_request", "the body ended too early")));
  });
}
