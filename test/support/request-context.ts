import type { IncomingMessage, ServerResponse } from "node:http";
import { Connection } from "../../src/http/connections.ts";
import { RequestContext } from "../../src/http/request-context.ts";
import type { RoutedContext } from "../../src/http/routed.ts";
import { Unread } from "../../src/http/unread.ts";
import { defaultLimits } from "../../src/limits/limits.ts";

/** The context of a request without a connection, made of the parts that a test examines. */
export function contextOf(
  { request = {}, response = {} }: { readonly request?: object; readonly response?: object },
  unread = new Unread(defaultLimits),
): RoutedContext {
  for (const field of ["headers", "query", "params"]) if (!(field in request)) Object.assign(request, { [field]: {} });
  const whole = request as unknown as IncomingMessage;
  const connection = new Connection(whole.socket);
  return new RequestContext(whole, response as ServerResponse, connection, unread) as RoutedContext;
}
