// The variables that name proxies on the way out, as other programs know them.

import { proxyUrl, text } from './parsers.ts'

export const proxyVariables = {
  HTTPS_PROXY: {
    describe:
      'proxy through which `https:` addresses are asked: those of the upstream, its sign-in and its description, and the receiver of alerts. Like the three below it may be written in lower case, which wins',
    fallback: '`ALL_PROXY`',
    form: '`http://proxy.example:3128`, with `user:password@` before the host if it asks for them',
    secret: true,
    schema: proxyUrl,
  },
  HTTP_PROXY: {
    describe: 'the same for `http:` addresses',
    fallback: '`ALL_PROXY`',
    form: 'as for `HTTPS_PROXY`',
    secret: true,
    schema: proxyUrl,
  },
  ALL_PROXY: {
    describe: 'proxy for addresses that have none of the two above',
    fallback: 'addresses are asked directly',
    form: 'as for `HTTPS_PROXY`',
    secret: true,
    schema: proxyUrl,
  },
  NO_PROXY: {
    describe: 'hosts that are asked directly, with all names below them; this machine always is',
    fallback: 'none but this machine',
    form: 'names, addresses and networks, comma-separated, each with a port or without, such as `example.com,10.0.0.0/8,host:8443`, or `*`',
    schema: text.default('').transform((value) => value.split(/[\s,]+/).filter(Boolean)),
  },
} as const
