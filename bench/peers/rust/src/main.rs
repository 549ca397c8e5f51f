//! A peer of ./dev bench --peers: rslock, one multiplexed connection.
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rslock::LockManager;
use tokio::sync::Barrier;

const LEASE: Duration = Duration::from_secs(30);

async fn section(locks: &LockManager, name: &[u8]) {
    let lock = locks.acquire_no_guard(name, LEASE).await.expect("acquire");
    locks.unlock(&lock).await;
}

#[tokio::main]
async fn main() {
    let arg: Vec<String> = std::env::args().collect();
    let tasks: usize = arg[3].parse().expect("tasks");
    let seconds: f64 = arg[5].parse().expect("seconds");
    let mut locks = LockManager::new(vec![format!("redis://127.0.0.1:{}/", arg[2])]);
    locks.set_retry(u32::MAX, Duration::from_millis(200)); // its own delay
    let stop = Arc::new(AtomicBool::new(false));
    let start = Arc::new(Barrier::new(tasks + 1));
    let mut all = Vec::new();
    for i in 0..tasks {
        let name = arg[4].replace("%d", &i.to_string()).into_bytes();
        let (locks, stop, start) = (locks.clone(), stop.clone(), start.clone());
        section(&locks, &name).await;
        all.push(tokio::spawn(async move {
            let mut done = 0u64;
            start.wait().await;
            while !stop.load(Ordering::Relaxed) {
                section(&locks, &name).await;
                done += 1;
            }
            done
        }));
    }
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0u8; 1]).expect("stdin"))
        .await
        .expect("start");
    start.wait().await;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    stop.store(true, Ordering::Relaxed);
    let mut sum = 0;
    for one in all {
        sum += one.await.expect("task");
    }
    println!("{sum}");
}
