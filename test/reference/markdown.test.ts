import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { openTemplate } from "../support/reference.ts";

const dangerousTags = /^(?:script|style|iframe|object|embed|form|button|base|meta|link|svg|math|template|noscript)$/i;

await describe("the markdown definition", async () => {
  const guest = await openTemplate({ after: (end) => after(end as () => void) }, "markdown.ts");

  const convert = async (markdown: string) => (await guest.call("convert", markdown)) as string;

  await test("Markdown becomes HTML, with GitHub's tables, tasks, strikethrough and links (T8.3)", async () => {
    assert.equal(
      await convert("# Title\n\nSome *text*, **bold** and `code`.\n\n> quote\n"),
      '<h1 id="user-content-title">Title</h1>\n<p>Some <em>text</em>, <strong>bold</strong> and <code>code</code>.</p>\n' +
        "<blockquote>\n<p>quote</p>\n</blockquote>",
    );
    const table = await convert("| a | b |\n|:--|--:|\n| 1 | ~~2~~ |");
    assert.match(table, /<td align="left">1<\/td>\n<td align="right"><del>2<\/del><\/td>/);
    const tasks = await convert("- [x] done\n- [ ] open");
    assert.match(tasks, /<input type="checkbox" checked disabled> done[\s\S]*<input type="checkbox" disabled> open/);
    assert.equal(await convert("www.example.com"), '<p><a href="http://www.example.com">www.example.com</a></p>');
    assert.match(await convert("```ts\nlet a = 1 < 2;\n```"), /<code class="language-ts">let a = 1 &#x3C; 2;/);
    assert.equal(await convert(""), "");
  });

  await test("harmless inline HTML stays", async () => {
    assert.equal(
      await convert("Press <kbd>Enter</kbd>, H<sub>2</sub>O"),
      "<p>Press <kbd>Enter</kbd>, H<sub>2</sub>O</p>",
    );
    assert.match(
      await convert("<details><summary>More</summary>\n\ntext\n\n</details>"),
      /<details><summary>More<\/summary>/,
    );
  });

  await test("removes everything that runs, loads or deceives (T14.2)", async () => {
    const payloads = [
      "<script>alert(1)</script>",
      "<img src=x onerror=alert(1)>",
      "<svg/onload=alert(1)>",
      "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
      "<iframe src='javascript:alert(1)'></iframe>",
      "<form action='javascript:alert(1)'><button>x</button></form>",
      "<a href=' &#106;avascript:alert(1)'>x</a>",
      "<a href='java\tscript:alert(1)'>x</a>",
      "[x](JaVaScRiPt:alert(1))",
      "[x](data:text/html,<script>alert(1)</script>)",
      "<javascript:alert(1)>",
      "[x]: javascript:alert(1)\n\n[x]",
      "<style>body{background:url(javascript:alert(1))}</style>",
      "<base href='https://evil.example/'>",
      "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
      "<details open ontoggle=alert(1)>x</details>",
      "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
      "<!--><img src=x onerror=alert(1)>-->",
      "<div><script><!--\n</script><img src=x onerror=alert(1)></div>",
      "`</code><script>alert(1)</script>`",
    ];
    for (const payload of payloads) {
      const html = await convert(payload);
      for (const [, tag, attributes] of html.matchAll(/<\/?([a-z]\w*)((?:"[^"]*"|[^">])*)>/gi)) {
        assert.doesNotMatch(tag!, dangerousTags, html);
        for (const [, name, value] of attributes!.matchAll(/([^\s=]+)(?:="([^"]*)")?/g)) {
          assert.doesNotMatch(name!, /^(?:on|style|action|formaction|srcdoc)/i, html);
          if (name === "href" || name === "src") assert.match(value!, /^(?:https?:|mailto:|[^:]*$)/, html);
        }
      }
      assert.doesNotMatch(html.replace(/<\/?[a-z](?:"[^"]*"|[^">])*>/gi, ""), /</, "text has no open tag");
    }
  });

  await test("ids cannot pose as names of the page around", async () => {
    assert.equal(
      await convert("<b id='location' name='forms'>x</b>"),
      '<p><b id="user-content-location" name="user-content-forms">x</b></p>',
    );
    assert.match(await convert("# location"), /id="user-content-location"/);
    assert.equal(await convert("# a <script>b</script>"), '<h1 id="user-content-a">a </h1>');
  });

  await test("links within the document lead to its headings and footnotes", async () => {
    const html = await convert("# One\n\n[up](#one) and a note[^1]\n\n# One\n\n[^1]: text");
    for (const target of html.matchAll(/href="#([^"]*)"/g)) assert.ok(html.includes(`id="${target[1]}"`), target[0]);
    assert.match(html, /<a href="#user-content-one">up<\/a>/);
    assert.match(html, /id="user-content-one-1"/);
  });

  await test("the outline names every heading with the id that the HTML gives it", async () => {
    const markdown = "# A *b* `c`\n\n## D\n\nUnder\n-----\n\n<h3>Raw</h3>\n\n## D\n\nx[^1]\n\n[^1]: note";
    const headings = (await guest.call("outline", markdown)) as { level: number; text: string; id: string }[];
    assert.deepEqual(headings, [
      { level: 1, text: "A b c", id: "user-content-a-b-c" },
      { level: 2, text: "D", id: "user-content-d" },
      { level: 2, text: "Under", id: "user-content-under" },
      { level: 3, text: "Raw", id: "user-content-raw" },
      { level: 2, text: "D", id: "user-content-d-1" },
    ]);
    const html = await convert(markdown);
    for (const { level, id } of headings) assert.ok(html.includes(`<h${level} id="${id}">`), id);
  });

  await test("a table of contents is a list of links, as deep as is asked for", async () => {
    const markdown = "## A [b]\n\n### C\n\n#### D\n\n## E";
    assert.equal(await guest.call("contents", markdown), "- [A \\[b\\]](#a-b)\n  - [C](#c)\n- [E](#e)");
    assert.equal(
      await guest.call("contents", markdown, 6),
      "- [A \\[b\\]](#a-b)\n  - [C](#c)\n    - [D](#d)\n- [E](#e)",
    );
    assert.equal(await guest.call("contents", "no headings"), "");
  });

  await test("links are listed in order, without the dangerous ones", async () => {
    const markdown =
      "[a *b*](https://x.example \"t\") ![alt](/i.png) [bad](javascript:x) <https://y.example> <a href='z'>q</a>";
    assert.deepEqual(await guest.call("links", markdown), [
      { kind: "link", url: "https://x.example", text: "a b" },
      { kind: "image", url: "/i.png", text: "alt" },
      { kind: "link", url: "https://y.example", text: "https://y.example" },
      { kind: "link", url: "z", text: "q" },
    ]);
  });
});
