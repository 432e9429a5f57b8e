// Package inorder is about work that is done ahead on several processors and consumed in order.
package inorder
