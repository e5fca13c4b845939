// The variables of people: how they sign in to the console beside its tokens, and what they may do then.

import { duration, httpUrl, listed, networkList, optionalText, orNull, secretText, text } from './parsers.ts'
import type { Variable } from './variable.ts'

/** Node knows the names of headers in small letters. */
const headerName = (usual: string) => ({
  fallback: `\`${usual}\``,
  form: 'name of a header',
  schema: text
    .default(usual)
    .refine((name) => /^[\w-]+$/.test(name), 'must be the name of a header, such as X-Forwarded-User')
    .transform((name) => name.toLowerCase()),
})

const groupList = (usual: string) => ({
  fallback: `\`${usual}\``,
  form: 'names, comma-separated',
  schema: text.default(usual).transform(listed),
})

export const peopleVariables = {
  SESSION_LASTS: {
    as: 'sessionMs',
    describe: 'how long somebody stays signed in to the console',
    ...duration('12h', '1m'),
  },
  OIDC_ISSUER: {
    describe:
      'identity provider at which people sign in to the console (OpenID Connect), and after which all pages require a sign-in',
    fallback: 'people sign in with tokens only',
    form: 'URL, as in the `issuer` of its `/.well-known/openid-configuration`',
    schema: orNull(httpUrl),
  },
  OIDC_CLIENT_ID: {
    needs: 'OIDC_ISSUER',
    describe: 'what the provider calls this console',
    fallback: 'required with `OIDC_ISSUER`',
    form: 'text',
    schema: optionalText,
  },
  OIDC_CLIENT_SECRET: {
    needs: 'OIDC_ISSUER',
    describe: 'the secret that goes with it',
    fallback: 'none: the provider knows the console as a public client',
    ...secretText(8),
  },
  OIDC_SCOPE: {
    needs: 'OIDC_ISSUER',
    describe: 'what the provider is asked for; some need one more word to tell the groups of people',
    fallback: '`openid profile email`',
    form: 'words, the first of them `openid`',
    schema: text
      .default('openid profile email')
      .refine(
        (words) => /^openid(?: [\x21-\x7e]+)*$/.test(words),
        'must begin with openid, such as openid profile groups',
      ),
  },
  OIDC_ROLE_CLAIM: {
    needs: 'OIDC_ISSUER',
    describe:
      'claim of the ID token that has the groups or roles of somebody; one inside of another with a dot, such as `realm_access.roles`',
    fallback: '`roles`',
    form: 'name',
    schema: text.default('roles'),
  },
  OIDC_NAME_CLAIM: {
    needs: 'OIDC_ISSUER',
    describe:
      'claim by which people are called in the record of actions; without it, `email` or `sub` is taken',
    fallback: '`preferred_username`',
    form: 'name',
    schema: text.default('preferred_username'),
  },
  IDENTITY_PROXIES: {
    describe:
      'proxies that may say in a header who somebody is, after which all pages require a sign-in; whoever can ask from these addresses can be anybody',
    fallback: 'no proxy is believed',
    ...networkList,
  },
  IDENTITY_USER_HEADER: {
    needs: 'IDENTITY_PROXIES',
    describe: 'header with the name of the person',
    ...headerName('x-forwarded-user'),
  },
  IDENTITY_GROUPS_HEADER: {
    needs: 'IDENTITY_PROXIES',
    describe: 'header with their groups, comma-separated',
    ...headerName('x-forwarded-groups'),
  },
  ADMIN_GROUPS: {
    describe: 'groups or roles, at the identity provider or the proxy, whose people may do everything',
    ...groupList('tidemark-admin'),
  },
  OPERATOR_GROUPS: {
    describe: 'those whose people may act, and not do what cannot be undone',
    ...groupList('tidemark-operator'),
  },
  VIEWER_GROUPS: {
    describe: 'those whose people may look',
    ...groupList('tidemark-viewer'),
  },
} as const satisfies Record<string, Variable>
