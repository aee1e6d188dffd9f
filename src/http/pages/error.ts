import type { Request, Response } from "express";
import type { BerthError } from "../../errors.ts";
import type { Pages } from "./pages.ts";

/** Whether a person reads the answer: a program that takes anything gets JSON. */
export function wantsPage(request: Request): boolean {
  return request.accepts(["json", "html"]) === "html";
}

/** What was wrong and what to do, as a page. */
export function sendErrorPage(pages: Pages, request: Request, response: Response, error: BerthError): Promise<void> {
  const page = { title: `Error ${error.status}`, status: error.status, message: error.message };
  return pages.send(request, response, "error", page, error.status);
}
