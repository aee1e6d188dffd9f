import { targetOf } from "./tester/target.ts";
import type { Tester } from "./tester/tester.tsx";

/**
 * Opens the tester in `<section id="tester" data-endpoint data-style>` when a person asks for it: by its button, by a
 * link such as `#tool=echo`, or by an address that ends like this. Only then is the client loaded. Links to it have
 * `data-try` and are hidden until here, since they lead nowhere without scripts.
 */
const section = document.getElementById("tester");
if (section) prepare(section);

function prepare(section: HTMLElement): void {
  const button = section.querySelector("button");
  let tester: Promise<Tester> | undefined;

  const open = async () => {
    button?.setAttribute("aria-busy", "true");
    tester ??= load(section);
    const opened = await tester;
    const target = targetOf(location.hash);
    if (target) opened.show(target);
  };
  const openByAddress = () => {
    if (!targetOf(location.hash)) return;
    section.scrollIntoView();
    section.querySelector("h2")?.focus({ preventScroll: true });
    void open();
  };

  for (const element of document.querySelectorAll<HTMLElement>("#tester button, [data-try]")) element.hidden = false;
  button?.addEventListener("click", () => void open());
  addEventListener("hashchange", openByAddress);
  // A second click on the same link does not change the address.
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link?.hash && link.hash === location.hash) openByAddress();
  });
  openByAddress();
}

async function load(section: HTMLElement): Promise<Tester> {
  const { endpoint = "", style = "" } = section.dataset;
  const [{ mountTester }] = await Promise.all([import("./tester/tester.tsx"), loadStyle(style)]);
  const heading = section.querySelector("h2");
  const place = document.createElement("div");
  if (section.querySelector("button") === document.activeElement) heading?.focus();
  heading?.nextElementSibling?.replaceWith(place);
  return mountTester(place, endpoint, targetOf(location.hash));
}

function loadStyle(href: string): Promise<void> {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  return new Promise((resolve) => {
    link.addEventListener("load", () => resolve());
    // Without its style sheet it is plain, but it works.
    link.addEventListener("error", () => resolve());
    document.head.append(link);
  });
}
