// An OpenID provider of the tests, on a free port of loopback. Its first line is its issuer.
//
// The one argument is JSON: `modules` is the directory that npm filled, `clients` are metadata of
// clients as OpenID Connect writes them, `users` have sub, email, email_verified and name.
// A user with `hides_email` has no e-mail address in ID tokens, only at the userinfo endpoint.
// Who signs in types an e-mail address; there are no passwords.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const { modules, clients, users } = JSON.parse(process.argv[2]);
const found = createRequire(`${modules}/`).resolve('oidc-provider');
const { default: Provider } = await import(pathToFileURL(found));

const server = createServer();
server.listen(0, '127.0.0.1', () => serve(`http://127.0.0.1:${server.address().port}`));

function serve(issuer) {
  const provider = new Provider(issuer, {
    clients,
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    // Otherwise only the userinfo endpoint would tell an e-mail address.
    conformIdTokenClaims: false,
    cookies: { keys: [randomBytes(32).toString('hex')] },
    features: { devInteractions: { enabled: false } },
    findAccount: (_, sub) => account(users.find((user) => user.sub === sub)),
    interactions: { url: (_, interaction) => `/sign-in/${interaction.uid}` },
    jwks: { keys: [signingKey('rsa', { modulusLength: 2048 }), signingKey('ec', { namedCurve: 'P-256' })] },
    loadExistingGrant: grantEverything,
    pkce: { required: () => true },
    ttl: { AccessToken: 600, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
  });
  const others = provider.callback();
  server.on('request', (request, response) => {
    if (!request.url.startsWith('/sign-in/')) return others(request, response);
    return signIn(provider, request, response).catch((error) => say(response, 400, error.message));
  });
  console.log(issuer);
}

function signingKey(type, options) {
  return generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' });
}

function account(user) {
  if (user === undefined) return undefined;
  const { hides_email: hidesEmail, ...claims } = user;
  const inToken = hidesEmail ? { sub: user.sub, name: user.name } : claims;
  return { accountId: user.sub, claims: (use) => (use === 'id_token' ? inToken : claims) };
}

async function grantEverything(context) {
  const { client, provider, session } = context.oidc;
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope('openid email profile');
  await grant.save();
  return grant;
}

async function signIn(provider, request, response) {
  await provider.interactionDetails(request, response);
  if (request.method !== 'POST') return say(response, 200, FORM);
  const form = new URLSearchParams(await text(request));
  if (form.has('cancel')) {
    const error_description = 'End-User <b>cancelled</b> the sign-in';
    return provider.interactionFinished(request, response, { error: 'access_denied', error_description });
  }
  const user = users.find(({ email }) => email === form.get('email'));
  if (user === undefined) return say(response, 200, FORM);
  // Of native clients the provider wants to know that somebody agreed.
  const result = { login: { accountId: user.sub }, consent: {} };
  return provider.interactionFinished(request, response, result);
}

const FORM = `<!doctype html><html lang="en"><title>Provider of the tests</title>
<h1>Sign in</h1><form method="post"><label>E-mail <input name="email"></label>
<button>Sign in</button> <button name="cancel" value="1">Cancel</button></form></html>`;

function say(response, status, body) {
  response.writeHead(status, { 'content-type': 'text/html; charset=utf-8' }).end(body);
}
