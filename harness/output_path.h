// output_path: the files and folders that a user names for results, looked at before anything runs.
// A name that cannot be meant (it exists already, its folder is a file) is Error conflict or
// bad_input; what the system refuses (no permission, a full disk) is Error environment.
// Thread rule: any thread. Not checked: that the disk has room.
#pragma once

#include <string>

namespace shardproof {

// Makes a folder and its parents; one that exists is fine.
void make_folder(const std::string& path);
// Makes a folder and its parents; nothing may exist there.
void make_fresh_folder(const std::string& path);
// The next `stem`-<n>, from 1, that does not exist: made, and its name.
std::string make_numbered_folder(const std::string& stem);
// Nothing is there yet, or something that is no file (a pipe, /dev/stdout); its folder exists.
void check_new_file(const std::string& path);

}  // namespace shardproof
