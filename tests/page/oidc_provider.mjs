// An OpenID Connect provider, npm's `oidc-provider`, with two clients: the page "page", and "robot", which gets tokens
// for the API. Who types a name of ROLES is that person.
//
//     node oidc_provider.mjs AUDIENCE REDIRECT_URI...
//
// It prints its address. A line "rotate" makes it sign with a new key, and "retire" withdraws the older keys.

import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(join(process.env.STOPGO_NPM_DIR, "package.json"));
const { default: Provider } = await import(require.resolve("oidc-provider"));

const ROLES = { alice: ["operator", "approver"], bob: ["viewer"], carol: [], robot: ["operator"] };
const [audience, ...redirectUris] = process.argv.slice(2);
const keys = [];
let provider;

function rotate() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  keys.unshift({ ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "RS256" });
  restart();
}

/** Sessions and codes are kept: the library stores them in a place that all its providers share. */
function restart() {
  provider = new Provider(issuer, {
    jwks: { keys: [...keys] },
    cookies: { keys: ["of this test"] },
    clients: [
      {
        client_id: "page",
        token_endpoint_auth_method: "none",
        redirect_uris: redirectUris,
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
      {
        client_id: "robot",
        client_secret: "secret of the robot",
        redirect_uris: [],
        grant_types: ["client_credentials"],
        response_types: [],
      },
    ],
    pkce: { required: () => true },
    scopes: ["openid", "profile"],
    claims: { openid: ["sub"], profile: ["roles"] },
    conformIdTokenClaims: true, // the roles are in the user info only
    findAccount: (context, sub) => ({ accountId: sub, claims: () => ({ sub, roles: ROLES[sub] ?? [] }) }),
    extraTokenClaims: (context, token) => ({ roles: ROLES[token.clientId] }),
    features: {
      devInteractions: { enabled: true },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ scope: "api", audience, accessTokenFormat: "jwt" }),
      },
    },
  });
}

const server = createServer((request, answer) => provider.callback()(request, answer));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
rotate();
console.log(`listening on ${issuer}`);

for await (const line of createInterface({ input: process.stdin })) {
  if (line === "rotate") rotate();
  if (line === "retire") {
    keys.splice(1);
    restart();
  }
  console.log(line);
}
server.closeAllConnections();
server.close();
