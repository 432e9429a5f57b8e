// Package postgres keeps logs in a PostgreSQL database.
package postgres
