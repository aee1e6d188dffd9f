import type { IncomingMessage, ServerResponse } from "node:http";
import type { Request, RequestHandler, Response } from "express";
import type { RequestContext } from "./request-context.ts";

/** The context of a request that Express has routed, with the parameters and query that Express read. */
export interface RoutedContext extends RequestContext {
  readonly request: Request<Record<string, string>>;
  readonly response: Response;
}

/** Answers a request that Express has routed. What it throws, or rejects with, becomes the answer. */
export type RouteHandler = (context: RoutedContext) => void | Promise<void>;

/** Refuses a request that may not do what a route does, by throwing. */
export type Permit = (context: RoutedContext) => void;

/** A page: its path, who may read it (everybody without `permit`), and what answers, made of the parts that it uses. */
export interface PageRoute<Parts> {
  readonly path: string;
  readonly permit?: Permit;
  readonly create: (parts: Parts) => RouteHandler;
}

/** Passes a request to Express, which keeps its context for `contextOf`. */
export function handOn(
  context: RequestContext,
  express: (request: IncomingMessage, response: ServerResponse) => void,
): void {
  (context.response as Partial<Response>).locals = { context };
  express(context.request, context.response);
}

export function contextOf(response: Response): RoutedContext {
  return (response.locals as { readonly context: RoutedContext }).context;
}

/** Wraps a handler for Express; `permit` is checked first. */
export function routed(handler: RouteHandler, permit?: Permit): RequestHandler {
  return async (_request, response) => {
    const context = contextOf(response);
    permit?.(context);
    await handler(context);
  };
}
