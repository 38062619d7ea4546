package tool

// Sources are the files of the real graphs that examples import, by the examples' names, as
// they lie in the directory that DISKGNN_DATA names.
var Sources = map[string]string{"computers": "amazon-computers.npz", "physics": "coauthor-physics.npz", "fb100": "fb100.npz", "tolokers": "tolokers"}
