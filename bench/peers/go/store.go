package main

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/jackc/pgtype"
	"github.com/jackc/pgx/v4/pgxpool"
)

const (
	standing = `g.revoked_at IS NOT NULL, g.expires_at <= now(), c.active, 'operations:read' = ANY (g.scopes), p.connected`

	grants = `access_tokens t
  JOIN grants g ON g.id = t.grant_id AND g.client_id = t.client_id
  JOIN clients c ON c.id = g.client_id
  JOIN provider_connections p ON p.id = g.provider_connection_id`

	columns = `o.id, o.type, o.state, o.revision, o.under_review, o.created_at, o.updated_at, o.completed_at,
  o.failure_code, o.failure_message`

	owned       = `o.client_id = g.client_id AND o.resource_owner = g.resource_owner AND o.subject = g.subject`
	newestFirst = `ORDER BY o.created_at DESC, o.id DESC`

	findOne = `SELECT ` + standing + `, ` + columns + ` FROM ` + grants +
		` LEFT JOIN operations o ON o.id = $2 AND ` + owned + ` WHERE t.digest = $1`

	listFrom = `SELECT ` + standing + `, ` + columns + ` FROM ` + grants +
		` LEFT JOIN LATERAL (SELECT * FROM operations o WHERE ` + owned
	listTo = `) o ON true WHERE t.digest = $1 ` + newestFirst
)

// The milliseconds are always there, unlike in time.RFC3339Nano.
const instant = "2006-01-02T15:04:05.000Z"

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type operation struct {
	ID                  string   `json:"id"`
	Type                string   `json:"type"`
	State               string   `json:"state"`
	Terminal            bool     `json:"terminal"`
	SubmissionUncertain bool     `json:"submission_uncertain"`
	UnderReview         bool     `json:"under_review"`
	Revision            int32    `json:"revision"`
	CreatedAt           string   `json:"created_at"`
	UpdatedAt           string   `json:"updated_at"`
	CompletedAt         *string  `json:"completed_at"`
	Failure             *failure `json:"failure"`

	updated time.Time
}

// A row of the joined statements. Without an operation, its columns are null.
type row struct {
	revoked, expired, active, scoped, connected bool

	id                                pgtype.UUID
	kind, state                       pgtype.Text
	revision                          pgtype.Int4
	underReview                       pgtype.Bool
	createdAt, updatedAt, completedAt pgtype.Timestamptz
	failureCode, failureMessage       pgtype.Text
}

func (r *row) targets() []interface{} {
	return []interface{}{
		&r.revoked, &r.expired, &r.active, &r.scoped, &r.connected,
		&r.id, &r.kind, &r.state, &r.revision, &r.underReview, &r.createdAt, &r.updatedAt, &r.completedAt,
		&r.failureCode, &r.failureMessage,
	}
}

// Why the grant may not read; nil if it may.
func (r *row) refusal() *refusal {
	switch {
	case r.revoked || r.expired:
		return &refusal{401, "grant_revoked"}
	case !r.active:
		return &refusal{401, "client_inactive"}
	case !r.scoped:
		return &refusal{403, "insufficient_scope"}
	case !r.connected:
		return &refusal{403, "provider_disconnected"}
	}
	return nil
}

func formatUUID(id [16]byte) string {
	var text [36]byte
	hex.Encode(text[:8], id[:4])
	text[8] = '-'
	hex.Encode(text[9:13], id[4:6])
	text[13] = '-'
	hex.Encode(text[14:18], id[6:8])
	text[18] = '-'
	hex.Encode(text[19:23], id[8:10])
	text[23] = '-'
	hex.Encode(text[24:], id[10:])
	return string(text[:])
}

func (r *row) operation() operation {
	state := r.state.String
	found := operation{
		ID:                  formatUUID(r.id.Bytes),
		Type:                r.kind.String,
		State:               state,
		Terminal:            state == "succeeded" || state == "failed" || state == "cancelled",
		SubmissionUncertain: state == "submitting" || state == "indeterminate",
		UnderReview:         r.underReview.Bool,
		Revision:            r.revision.Int,
		CreatedAt:           r.createdAt.Time.UTC().Format(instant),
		UpdatedAt:           r.updatedAt.Time.UTC().Format(instant),
		updated:             r.updatedAt.Time,
	}
	if r.completedAt.Status == pgtype.Present {
		completed := r.completedAt.Time.UTC().Format(instant)
		found.CompletedAt = &completed
	}
	if r.failureCode.Status == pgtype.Present {
		found.Failure = &failure{r.failureCode.String, r.failureMessage.String}
	}
	return found
}

type store struct {
	pool *pgxpool.Pool
}

// Reads at most capacity operations. The refusal is not nil if the grant may not read.
func (s store) read(
	ctx context.Context, capacity int, statement string, arguments ...interface{},
) ([]operation, *refusal, error) {
	rows, err := s.pool.Query(ctx, statement, arguments...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	found := make([]operation, 0, capacity)
	refused := &refusal{401, "invalid_token"}
	var current row
	targets := current.targets()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, nil, err
		}
		if refused = current.refusal(); refused != nil {
			return nil, refused, nil
		}
		if current.id.Status == pgtype.Present {
			found = append(found, current.operation())
		}
	}
	return found, refused, rows.Err()
}

func (s store) find(ctx context.Context, digest []byte, id string) ([]operation, *refusal, error) {
	return s.read(ctx, 1, findOne, digest, id)
}

// The limit is part of the text: with a parameter in its place, PostgreSQL would plan the statement each time.
func (s store) list(ctx context.Context, digest []byte, limit int, after *cursor) ([]operation, *refusal, error) {
	end := ` ` + newestFirst + ` LIMIT ` + strconv.Itoa(limit) + listTo
	if after == nil {
		return s.read(ctx, limit, listFrom+end, digest)
	}
	return s.read(ctx, limit, listFrom+` AND (o.created_at, o.id) < ($2, $3)`+end, digest, after.createdAt, after.id)
}
