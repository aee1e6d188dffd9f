import type { Request, RequestHandler, Response, Router } from "express";
import { BerthError } from "../../errors.ts";

/** Answers one method of an address; what it rejects with becomes the answer. */
export type Handler = (request: Request<Record<string, string>>, response: Response) => Promise<void>;

const WRITES = ["put", "post", "delete"] as const;

/**
 * What one address takes. Every method that writes goes through `mayWrite` first, and every other one is refused with
 * what is allowed.
 */
export function addRoute(
  router: Router,
  path: string,
  mayWrite: RequestHandler,
  handlers: Partial<Record<"get" | (typeof WRITES)[number], Handler>>,
): void {
  if (handlers.get) router.get(path, handlers.get as RequestHandler);
  for (const method of WRITES) {
    const handler = handlers[method];
    if (handler) router[method](path, mayWrite, handler as RequestHandler);
  }
  const allowed = Object.keys(handlers).flatMap((method) =>
    method === "get" ? ["GET", "HEAD"] : method.toUpperCase(),
  );
  router.all(path, (request, response) => {
    response.setHeader("Allow", allowed.join(", "));
    throw new BerthError("method_not_allowed", `${request.method}; it takes ${allowed.join(", ")}`);
  });
}
