// How every page is answered: what the browser may do with it, and that nobody keeps a copy.

import type { FastifyReply } from 'fastify'
import { type Html, markupOf } from './html.ts'

const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

export const sendPage = (reply: FastifyReply, page: Html, status = 200): FastifyReply =>
  reply
    .code(status)
    .headers({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': contentPolicy,
      'x-content-type-options': 'nosniff',
      // Without it, forms would be sent with the origin `null`.
      'referrer-policy': 'same-origin',
      'cache-control': 'no-store',
    })
    .send(markupOf(page))
