package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A refusal of a request.
type refusal struct {
	status int
	code   string
}

type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Code      string `json:"code"`
	RequestID string `json:"request_id"`
}

type page struct {
	Operations    []operation `json:"operations"`
	NextPageToken *string     `json:"next_page_token"`
}

// The last operation of a page.
type cursor struct {
	createdAt time.Time
	id        string
}

type api struct {
	store store
}

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", health)
	mux.HandleFunc("/v1/operations", a.list)
	mux.HandleFunc("/v1/operations/", a.find)
	return mux
}

func isRequestID(id string) bool {
	if len(id) < 8 || len(id) > 128 {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '.' || c == '_' || c == '~' || c == '-') {
			return false
		}
	}
	return true
}

func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); isRequestID(id) {
		return id
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		log.Fatal(err)
	}
	return formatUUID(id)
}

func write(w http.ResponseWriter, status int, mediaType, id string, body interface{}) {
	bytes, err := json.Marshal(body)
	if err != nil {
		log.Print(err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Length", strconv.Itoa(len(bytes)))
	secure(header, id)
	w.WriteHeader(status)
	_, _ = w.Write(bytes)
}

// The headers of every response.
func secure(header http.Header, id string) {
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "no-store")
	}
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Request-Id", id)
}

func refuse(w http.ResponseWriter, id string, status int, code string) {
	write(w, status, "application/problem+json", id, problem{"http://127.0.0.1/problems/" + code, code, status, code, id})
}

func fail(w http.ResponseWriter, id string, err error) {
	log.Print(err)
	refuse(w, id, http.StatusServiceUnavailable, "service_unavailable")
}

// The SHA-256 of the bearer token; false if there is none.
func digestOf(r *http.Request) ([]byte, bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimLeft(token, " ")
	if !found || token == "" || !strings.EqualFold(scheme, "Bearer") {
		return nil, false
	}
	digest := sha256.Sum256([]byte(token))
	return digest[:], true
}

func health(w http.ResponseWriter, r *http.Request) {
	write(w, http.StatusOK, "application/json", requestID(r), struct {
		Status string `json:"status"`
	}{"ok"})
}

func (a *api) find(w http.ResponseWriter, r *http.Request) {
	id := requestID(r)
	digest, ok := digestOf(r)
	if !ok {
		refuse(w, id, http.StatusUnauthorized, "missing_credentials")
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/v1/operations/")
	if !isUUID(name) {
		refuse(w, id, http.StatusUnprocessableEntity, "invalid_request")
		return
	}
	found, refused, err := a.store.find(r.Context(), digest, name)
	switch {
	case err != nil:
		fail(w, id, err)
	case refused != nil:
		refuse(w, id, refused.status, refused.code)
	case len(found) == 0:
		refuse(w, id, http.StatusNotFound, "operation_not_found")
	default:
		writeOperation(w, r, id, &found[0])
	}
}

func writeOperation(w http.ResponseWriter, r *http.Request, id string, found *operation) {
	tag := `"1-` + strconv.Itoa(int(found.Revision)) + `-` + strconv.FormatInt(found.updated.UnixMilli(), 36)
	if found.UnderReview {
		tag += `-review`
	}
	tag += `"`
	header := w.Header()
	header.Set("Cache-Control", "private, no-cache")
	header.Set("Vary", "Accept, Authorization, Prefer")
	header.Set("ETag", tag)
	if !found.Terminal {
		seconds := math.Ceil(time.Since(found.updated).Seconds() / 10)
		header.Set("Retry-After", strconv.Itoa(int(math.Min(300, math.Max(1, seconds)))))
	}
	if r.Header.Get("If-None-Match") == tag {
		secure(header, id)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	write(w, http.StatusOK, "application/json", id, found)
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	id := requestID(r)
	digest, ok := digestOf(r)
	if !ok {
		refuse(w, id, http.StatusUnauthorized, "missing_credentials")
		return
	}
	size, after, code := queryOf(r.URL)
	if code != "" {
		refuse(w, id, http.StatusUnprocessableEntity, code)
		return
	}
	found, refused, err := a.store.list(r.Context(), digest, size+1, after)
	if err != nil {
		fail(w, id, err)
		return
	}
	if refused != nil {
		refuse(w, id, refused.status, refused.code)
		return
	}
	body := page{Operations: found}
	if len(found) > size {
		body.Operations = found[:size]
		last := found[size-1]
		token := base64.RawURLEncoding.EncodeToString([]byte(last.CreatedAt + " " + last.ID))
		body.NextPageToken = &token
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Vary", "Accept, Authorization")
	write(w, http.StatusOK, "application/json", id, body)
}

// The size of the page and the cursor before it, or the code of a problem.
func queryOf(target *url.URL) (int, *cursor, string) {
	size := 100
	if target.RawQuery == "" {
		return size, nil, ""
	}
	var after *cursor
	for name, values := range target.Query() {
		var err error
		switch name {
		case "page_size":
			if size, err = strconv.Atoi(values[0]); err != nil || size < 1 || size > 100 {
				return 0, nil, "invalid_request"
			}
		case "page_token":
			if after, err = cursorOf(values[0]); err != nil {
				return 0, nil, "invalid_page_token"
			}
		default:
			return 0, nil, "invalid_request"
		}
	}
	return size, after, ""
}

func cursorOf(token string) (*cursor, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, err
	}
	created, id, _ := strings.Cut(string(text), " ")
	createdAt, err := time.Parse(time.RFC3339, created)
	if err != nil {
		return nil, err
	}
	if !isUUID(id) {
		return nil, fmt.Errorf("%q is no operation id", id)
	}
	return &cursor{createdAt, id}, nil
}
