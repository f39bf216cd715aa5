// Shows the camera by WebRTC. If no frame comes within three seconds, it shows MJPEG instead.
"use strict";

const video = document.getElementById("video");
const pictures = document.getElementById("pictures");
const state = document.getElementById("state");
const token = location.search;
let isShown = false;

function showPictures(reason) {
  if (isShown) { return; }
  isShown = true;
  state.textContent = `MJPEG: ${reason}`;
  video.hidden = true;
  pictures.hidden = false;
  pictures.src = `camera.mjpg${token}`;
}

async function gathered(connection) {
  if (connection.iceGatheringState === "complete") { return; }
  await new Promise((resolve) => {
    connection.addEventListener("icegatheringstatechange", () => {
      if (connection.iceGatheringState === "complete") { resolve(); }
    });
    setTimeout(resolve, 1000);
  });
}

async function connect() {
  const connection = new RTCPeerConnection();
  connection.addTransceiver("video", { direction: "recvonly" });
  connection.addEventListener("track", (event) => { video.srcObject = new MediaStream([event.track]); });
  await connection.setLocalDescription(await connection.createOffer());
  await gathered(connection);
  const answer = await fetch(`offer${token}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ sdp: connection.localDescription.sdp, type: "offer" }),
  });
  if (!answer.ok) { throw new Error(await answer.text()); }
  await connection.setRemoteDescription(await answer.json());
  setTimeout(() => {
    if (!isShown) {
      connection.close();
      showPictures("no frame came by WebRTC");
    }
  }, 3000);
}

video.addEventListener("playing", () => {
  isShown = true;
  state.textContent = "WebRTC";
});
connect().catch((error) => showPictures(error.message));
