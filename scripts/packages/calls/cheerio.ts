import * as cheerio from "cheerio";

/** Changes HTML. */
export function html(): string {
  const $ = cheerio.load('<h2 class="title">Hello world</h2>');
  $("h2.title").text("Hello there!");
  $("h2").addClass("welcome");
  return $.html();
}
