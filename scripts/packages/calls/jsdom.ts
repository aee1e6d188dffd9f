import { JSDOM } from "jsdom";

/** Reads a page as a browser does. */
export function page(): { text: string | null | undefined; title: string } {
  const dom = new JSDOM("<!DOCTYPE html><title>A page</title><p>Hello <b>world</b></p>", {
    url: "https://example.org/",
  });
  const { document } = dom.window;
  return { text: document.querySelector("p")?.textContent, title: document.title };
}
