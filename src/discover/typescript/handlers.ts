/** The names of the function of a tool in an object, as libraries have it; the first that there is counts. */
export const HANDLERS: readonly string[] = ["execute", "handler", "invoke", "func", "callback", "run"];
