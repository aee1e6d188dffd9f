import type { Request, RequestHandler, Response, Router } from "express";
import { BerthError } from "../../errors.ts";

/** Answers one method of an address; what it rejects with becomes the answer. */
export type Handler = (request: Request<Record<string, string>>, response: Response) => Promise<void>;

const WRITES = ["put", "post", "delete"] as const;

/** What is asked of who reads, and of who writes: each refuses by what it throws. */
export interface Permits {
  readonly read: RequestHandler<Record<string, string>>;
  readonly write: RequestHandler<Record<string, string>>;
}

/** What one address takes, and from whom. Every other method is refused with what is allowed. */
export function addRoute(
  router: Router,
  path: string,
  permits: Permits,
  handlers: Partial<Record<"get" | (typeof WRITES)[number], Handler>>,
): void {
  if (handlers.get) router.get(path, permits.read as RequestHandler, handlers.get as RequestHandler);
  for (const method of WRITES) {
    const handler = handlers[method];
    if (handler) router[method](path, permits.write as RequestHandler, handler as RequestHandler);
  }
  const allowed = Object.keys(handlers).flatMap((method) =>
    method === "get" ? ["GET", "HEAD"] : method.toUpperCase(),
  );
  router.all(path, (request, response) => {
    response.setHeader("Allow", allowed.join(", "));
    throw new BerthError("method_not_allowed", `${request.method}; it takes ${allowed.join(", ")}`);
  });
}
