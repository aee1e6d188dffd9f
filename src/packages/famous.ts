import { distance } from "../lib/near-names.ts";

/** Packages that most people know. A name that differs from one of them by one letter is seldom meant. */
const FAMOUS: ReadonlySet<string> = new Set(
  `@anthropic-ai/sdk @aws-sdk/client-dynamodb @aws-sdk/client-s3 @babel/core @google/genai @google/generative-ai
  @modelcontextprotocol/sdk @notionhq/client @octokit/core @octokit/rest @prisma/client @sendgrid/mail @sentry/node
  @slack/bolt @slack/web-api @supabase/supabase-js acorn airtable ajv ajv-formats algoliasearch async async-retry axios
  bcrypt bcryptjs better-sqlite3 bignumber.js bluebird body-parser bottleneck cac chai chalk cheerio chokidar classnames
  clsx colors commander cookie core-js cors cron cron-parser cross-env cross-spawn crypto-js csv-parse csv-parser
  csv-stringify d3 date-fns dayjs debug decimal.js deepmerge discord.js docx dompurify dotenv drizzle-orm ejs esbuild
  eslint eventemitter3 exceljs execa express fast-check fast-glob fast-xml-parser fastify fflate file-type form-data
  front-matter fs-extra fuse.js glob globby googleapis got graphql graphql-request gray-matter handlebars he hono
  html-to-text http-errors iconv-lite immer immutable inquirer ioredis isomorphic-fetch jest joi jose js-yaml jsdom
  json5 jsonpath-plus jsonwebtoken jszip kleur knex koa kysely ky langchain libphonenumber-js linkedom lodash lodash-es
  lru-cache luxon mammoth markdown-it marked mathjs mime mime-types minimatch minimist mitt mkdirp moment
  moment-timezone mongodb mongoose ms multer mustache mysql mysql2 nanoid next nock node-cron node-fetch nodemailer
  nunjucks nuxt octokit openai ora p-limit p-map p-queue p-retry papaparse passport pdf-lib pdf-parse pdfkit pg picocolors pino
  playwright preact prettier prisma prom-client puppeteer qs query-string radash ramda rate-limiter-flexible react
  react-dom redis reflect-metadata remark request rimraf rollup rss-parser rxjs sanitize-html semver sequelize sharp
  shelljs simple-git slugify socket.io sqlite3 stripe superagent superstruct svelte tar telegraf terser tldts
  tmp ts-node tslib tsx turndown twilio typeorm typescript uglify-js ulid underscore undici unified uuid validator
  valibot vite vitest vue webpack winston ws xlsx xml2js yaml yargs yup zod zod-to-json-schema zx`.split(/\s+/),
);

/** Among shorter names too many are alike. */
const UNITS_MIN = 4;

/** The well-known package that a name looks like without being it: one letter more, less, changed, or swapped. */
export function famousLookalike(name: string): string | undefined {
  if (name.length < UNITS_MIN || FAMOUS.has(name)) return undefined;
  // One letter leaves the first or the last half as it is: most names need no measuring, which a set of a thousand pays.
  const half = Math.floor((name.length - 1) / 2);
  for (const famous of FAMOUS) {
    if (famous.length < UNITS_MIN || Math.abs(famous.length - name.length) > 1) continue;
    const mayDiffer = famous.startsWith(name.slice(0, half)) || famous.endsWith(name.slice(-half));
    if (mayDiffer && distance(name, famous) === 1) return famous;
  }
  return undefined;
}
