// Generates the types of requests and responses: node generate.mjs DOCUMENT OUTPUT
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const [source, target] = process.argv.slice(2);
const document = JSON.parse(await readFile(source, "utf8"));
const nodes = await openapiTS(document, { alphabetize: true, transform: extensibleUnion });
await mkdir(path.dirname(target), { recursive: true });
await writeFile(target, astToString(nodes));

// `"queued" | "running" | (string & {})`: editors complete the known values, and newer ones are accepted.
function extensibleUnion(schema) {
  const values = schema["x-extensible-enum"];
  if (values === undefined) return undefined;
  const { factory } = ts;
  const literals = values.map((value) => factory.createLiteralTypeNode(factory.createStringLiteral(value)));
  const anyString = factory.createIntersectionTypeNode([
    factory.createKeywordTypeNode(ts.SyntaxKind.StringKeyword),
    factory.createTypeLiteralNode([]),
  ]);
  const nullable = Array.isArray(schema.type) && schema.type.includes("null");
  const none = nullable ? [factory.createLiteralTypeNode(factory.createNull())] : [];
  return factory.createUnionTypeNode([...literals, anyString, ...none]);
}
