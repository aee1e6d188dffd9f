/** Property names of a tool's function in the objects of libraries; the first that exists counts. */
export const HANDLERS: readonly string[] = ["execute", "handler", "invoke", "func", "callback", "run"];
